"""The Deliver part without a browser: each state in words, both languages."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.ui.test_export import bad_report, visible
from tests.ui.test_views import KEY
from zeroboard.contract.exports import Delivered, ExportPhase, ExportReport, ExportStage, ExportState
from zeroboard.contract.problems import Problem
from zeroboard.messages import LANGUAGES, Language
from zeroboard.ui.views import deliver


def delivered() -> ExportReport:
    files = (Delivered(name="<b>model.safetensors", bytes=2048),)
    return ExportReport(
        path="/x/合并", kind="full-model", dtype="BF16", files=files, verification=bad_report(), seconds=3.2
    )


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_state_and_phase_is_a_sentence(lang: Language) -> None:
    for stage in get_args(ExportStage):
        for phase in get_args(ExportPhase):
            says, params = "progress.export.write", {"written": "1.0", "total": "2.0"}
            state = ExportState(id="a", created=0.0, state=stage, phase=phase, done=0.25, says=says, params=params)  # type: ignore[arg-type]
            page = str(deliver.export(state, delivered(), lang, "/files/exports/a/report"))
            assert not KEY.search(visible(page)), page
            assert ("width:25%" in page) == (stage == "running")
            assert "<b>model" not in page


def test_what_ended_while_it_was_sent_is_not_called_gone() -> None:
    for stage, gone in (("cancelled", "Nothing of it was left"), ("lost", "nothing was delivered")):
        state = ExportState(id="a", created=0.0, state=stage, phase="push")  # type: ignore[arg-type]
        assert gone in str(deliver.export(state, None, "en"))
        kept = str(deliver.export(state, delivered(), "en"))
        assert gone not in kept and "stays" in kept


def test_a_failure_comes_with_its_remedy() -> None:
    problem = Problem(code="gguf-missing", params={"package": "p", "variable": "V"})
    state = ExportState(id="a", created=0.0, state="failed", problems=(problem,))
    page = str(deliver.export(state, None, "en"))
    assert "llama.cpp" in page and 'class="remedy"' in page
    assert deliver.past((), "en") is None
    assert "/x/y" in str(deliver.past(((state, "/x/y"),), "en"))
