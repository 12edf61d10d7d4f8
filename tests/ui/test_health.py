"""Health in a line: the proof, the worst that was noticed, and the GPUs of the run that are not well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ui import scripted
from tests.ui.test_machine import BUSY, LOST, history, with_gpus
from tests.ui.test_views import whole
from zeroboard.contract.findings import Diagnosis, Finding
from zeroboard.messages import LANGUAGES, Language
from zeroboard.paths import Paths
from zeroboard.ui.shared import Shared
from zeroboard.ui.views import findings, gpus, live
from zeroboard.ui.views.health import health
from zeroboard.ui.views.machine import Beside

NOTHING = Diagnosis(root=None, findings=())
IDLE = Finding(
    code="gpu-idle", severity="warning", says="finding.gpu-idle", params={"percent": 61, "minutes": 5, "gpus": "0, 1"}
)
MINE = Beside(ours=frozenset({11}), mine=frozenset({"GPU-a", "GPU-b"}), training=True, history=history(40.0))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_what_is_wrong_is_told_with_the_gpus_it_is_wrong_on(lang: Language) -> None:
    wrong = gpus.troubles(with_gpus(BUSY, LOST), MINE, lang)
    assert list(wrong.values()) == [["1"], ["0"], ["0"], ["0"], ["0"]]  # lost, stranger, memory, throttled, idle
    page = whole(health(None, Diagnosis(root=None, findings=(IDLE, IDLE)), wrong, lang, alive=True, gpus=2))
    assert page.count("zb-badge warn") == 5 and page.count("zb-badge lead warn") == 1
    assert "61" in page and 'data-press="zb-findings-tab-button"' in page and 'data-press="zb-proof-tab-button"' in page


def test_a_gpu_of_the_run_that_the_driver_lists_no_more_is_the_worst() -> None:
    wrong = gpus.troubles(with_gpus(BUSY), MINE, "en")
    assert next(iter(wrong.items())) == ("Not listed by the driver", ["b"])
    others = Beside(mine=frozenset({"GPU-b"}))
    assert gpus.troubles(with_gpus(BUSY, LOST.model_copy(update={"state": "ok"})), others, "en") == {}


def test_power_at_its_limit_is_told_and_no_warning() -> None:
    full = BUSY.model_copy(update={"memory_used": 1 << 30, "throttle": ("power-cap",), "processes": ()})
    calm = Beside(mine=frozenset({"GPU-a"}), training=True, history=history(99.0))
    assert "at its power limit" in gpus.cards(with_gpus(full), "en", calm)
    assert gpus.troubles(with_gpus(full), calm, "en") == {}


def test_good_news_is_told_only_where_it_is_known() -> None:
    assert "Nothing was noticed" in health(None, NOTHING, {}, "en", alive=True, gpus=2)
    assert "GPUs without an alert: 2" in health(None, NOTHING, {}, "en", alive=True, gpus=2)
    unknown = whole(health(None, NOTHING, None, "en", alive=True, gpus=2))
    assert "without an alert" not in unknown and "GPUs unknown" in unknown
    ended = whole(health(None, NOTHING, {}, "en", alive=False, gpus=2))
    assert "Nothing was noticed" not in ended and "without an alert" not in ended


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_cause_stands_once_at_the_top_and_its_traceback_with_the_finding(tmp_path: Path, lang: Language) -> None:
    shared = Shared(Paths(tmp_path))
    run = scripted.planned(shared.paths)
    scripted.failed(run)
    shown = shared.snapshot(run.id)
    found = shared.findings(shown)
    top = whole(live.outcome(shown, lang, found))
    assert "zb-findings-tab-button" in top and "Traceback" not in top and top.count("<p>") == 1
    below = whole(findings.findings(found.findings, found.root, lang, errors=shown.errors))
    assert below.count("Traceback") == 1 and below.index("data-remedy") < below.index("Traceback")
    assert "Traceback" in live.outcome(shown, lang, NOTHING)  # without a cause the box keeps them itself
