"""The preview's checks and alternatives: what is in the way stands open, the rest is folded, all of it escaped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planning import facts
from tests.ui.test_views import whole
from zeroboard.contract.reports import DoctorCheck
from zeroboard.messages import LANGUAGES, Language, say
from zeroboard.paths import Paths
from zeroboard.planning.planner import make_plan
from zeroboard.services.alternatives import all_others
from zeroboard.ui.views import checks


@pytest.mark.parametrize("lang", LANGUAGES)
def test_checks_that_fail_stand_open_with_their_remedy_and_the_rest_is_folded(lang: Language) -> None:
    good = DoctorCheck(name="port", verdict="pass", says="preflight.port.own")
    bad = DoctorCheck(
        name="disk", verdict="fail", says="problem.disk-space", params={"need": "9 GiB", "free": "1 <b>", "field": None}
    )
    told = whole(checks.checks([good, bad], lang))
    assert told.index(say("problem.disk-space.remedy", lang)) < told.index("<details>")
    assert told.index("<details>") < told.index(say(good.says, lang))
    assert "1 <b>" not in told and say("ui.checks.fail", lang, fails=1) in told
    assert say("ui.checks.pass", lang, passes=1) in whole(checks.checks([good], lang))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_other_launchers_are_folded_and_can_be_copied(lang: Language, tmp_path: Path) -> None:
    def shown(*sets: str) -> str:
        spec, host = facts.spec("zero.stage=2", *sets), facts.host(2)
        plan = make_plan(
            spec,
            host=host,
            paths=Paths(tmp_path),
            model=facts.model(tmp_path / "m"),
            data=facts.data(tmp_path / "d.jsonl"),
            tokens=None,
        )
        return whole(checks.alternatives(all_others(plan, spec, host), lang) or "")

    one, two = shown(), shown("devices.nodes=2")
    assert (one.count("<details>"), two.count("<details>")) == (2, 3)
    assert "#SBATCH --nodes=2" in two and two.count("data-copy") == two.count("<textarea")
    assert shown("zero.offload=all", "zero.stage=none") == ""


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_failed_check_says_beside_the_button_why_nothing_starts(lang: Language) -> None:
    assert say("ui.preview.start.hint", lang) in whole(checks.barred(0, lang))
    told = whole(checks.barred(2, lang))
    assert say("ui.checks.fail", lang, fails=2) in told and say("ui.preview.start.barred", lang) in told
    assert say("ui.preview.start.hint", lang) not in told
