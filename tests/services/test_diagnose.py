"""A log from anywhere, or a run of ours."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.diagnosis.told import raised
from tests.fakes import make_run, popen
from zeroboard.contract.events import FindingEvent
from zeroboard.contract.findings import Evidence, Finding
from zeroboard.contract.state import ENDED
from zeroboard.errors import NotFound, UsageError
from zeroboard.files import append_line, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.processes import own_mark
from zeroboard.runs.registry import read_state
from zeroboard.runs.snapshot import SnapshotReader
from zeroboard.services import diagnose, runs, show


def run_to_its_end(paths: Paths, *script: str) -> RunPaths:
    run = make_run(paths, *script)
    runs.start(paths, run.id, popen=popen)
    until = time.monotonic() + 20
    while read_state(run).state not in ENDED:
        assert time.monotonic() < until
        time.sleep(0.05)
    return run


def test_a_failed_run_shows_its_findings_with_the_first_cause_first(paths: Paths) -> None:
    run = run_to_its_end(paths, "--fail-at", "2")
    (finding,) = show.show(paths, run.id)["findings"]
    assert (finding["code"], finding["rank"], finding["severity"]) == ("python-exception", 1, "error")
    assert finding["evidence"]["text"] == "ValueError: row 7 is bad" and finding["echoes"] >= 1
    assert finding["message"] and finding["remedies"][0]["text"]
    found = diagnose.diagnose(paths, run.id[:-1])
    assert found.diagnosis.root == "python-exception" and found.diagnosis == diagnose.diagnose(paths, "last").diagnosis


def test_the_log_of_the_rank_explains_with_fields_that_fit_the_run_s_spec(paths: Paths) -> None:
    run = run_to_its_end(paths, "--die-at", "2")
    run.rank_log(1).write_text("on\n" + raised("torch.OutOfMemoryError: CUDA out of memory."))
    (finding,) = show.show(paths, run.id, language="zh-CN")["findings"]
    assert (finding["code"], finding["rank"]) == ("cuda-oom", 1) and "显存" in finding["message"]
    assert finding["evidence"] == {
        "file": "logs/rank_1.log", "line": 5, "text": "torch.OutOfMemoryError: CUDA out of memory.",
    }  # fmt: skip
    assert finding["remedies"][0]["set"] == {"train.micro_batch": 1, "train.accumulation": 8}


STALLED = Finding(code="stalled", severity="warning", rank=1, says="finding.stalled.together", params={"seconds": 9})


def notice(run: RunPaths, *events: tuple[Finding, bool]) -> None:
    for number, (found, cleared) in enumerate(events, 1000):
        event = FindingEvent(seq=number, time=time.time(), rank=-1, finding=found, cleared=cleared)
        append_line(run.events, event.model_dump_json())


def test_a_run_that_goes_on_shows_what_is_noticed_until_it_is_over(paths: Paths) -> None:
    run = make_run(paths)
    notice(run, (STALLED, False))
    (finding,) = show.show(paths, run.id)["findings"]
    assert (finding["code"], finding["rank"], finding["severity"]) == ("stalled", 1, "warning")
    assert "9 s" in finding["message"]
    notice(run, (STALLED, True))
    assert show.show(paths, run.id)["findings"] == []


def test_while_a_run_goes_on_what_is_noticed_stands_before_what_its_logs_say(paths: Paths) -> None:
    run = make_run(paths)
    state = read_state(run).model_copy(update={"state": "running", "supervisor": own_mark()})
    write_atomic(run.state, state.model_dump_json())
    idle = STALLED.model_copy(update={"code": "gpu-idle", "rank": None})
    notice(run, (idle, False))
    found = diagnose.of_run(run, SnapshotReader(run).read())
    assert (found.root, [finding.code for finding in found.findings]) == (None, ["gpu-idle"])
    notice(run, (STALLED, False))
    run.logs.mkdir(exist_ok=True)
    run.rank_log(0).write_text(raised("torch.OutOfMemoryError: CUDA out of memory."))
    found = diagnose.of_run(run, SnapshotReader(run).read())
    assert (found.root, [finding.code for finding in found.findings]) == (
        "stalled",
        ["stalled", "cuda-oom", "gpu-idle"],
    )


def test_what_was_noticed_before_the_end_testifies_behind_the_root_cause(paths: Paths) -> None:
    run = run_to_its_end(paths, "--die-at", "2")
    last = STALLED.model_copy(update={"evidence": Evidence(file="logs/rank_1.log", line=3, text="in wait")})
    notice(run, (STALLED, False), (last, False), (last, True), (STALLED.model_copy(update={"code": "gpu-idle"}), False))
    append_line(run.events, '{"kind":"finding","broken')
    found = diagnose.diagnose(paths, str(run.folder)).diagnosis
    assert found.root == "killed-by-signal"
    assert [finding.code for finding in found.findings] == ["killed-by-signal", "stalled"]
    assert found.findings[1] == last


def test_a_killed_run_without_a_word_in_its_logs_says_what_its_supervisor_saw(paths: Paths) -> None:
    run = run_to_its_end(paths, "--die-at", "2")
    (finding,) = show.show(paths, run.id)["findings"]
    assert finding["code"] == "killed-by-signal" and finding["remedies"]


def test_a_run_that_did_not_fail_has_no_findings(paths: Paths) -> None:
    run = run_to_its_end(paths)
    run.rank_log(1).write_text(raised("ValueError: handled"))
    assert show.show(paths, run.id)["findings"] == []
    assert diagnose.diagnose(paths, str(run.folder)).diagnosis.root is None


def test_a_look_at_a_run_reads_only_the_end_of_a_long_log(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_to_its_end(paths, "--die-at", "2")
    early = raised("torch.OutOfMemoryError: CUDA out of memory.")
    run.rank_log(1).write_text(early + "a word\n" * 40_000 + raised("OSError: [Errno 28] No space left on device"))
    monkeypatch.setattr(diagnose, "GLANCE", 1)
    (finding,) = show.show(paths, run.id)["findings"]
    assert (finding["code"], finding["evidence"]["line"]) == ("disk-full", 40_008)


def test_a_log_from_elsewhere_is_judged_and_what_is_none_is_told(paths: Paths, tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(raised("ModuleNotFoundError: No module named 'deepspeed'"))
    assert diagnose.diagnose(paths, str(log)).diagnosis.root == "dependency-missing"
    log.write_bytes(b"")
    assert diagnose.diagnose(paths, str(log)).empty
    (tmp_path / "none").mkdir()
    for word in (str(tmp_path / "none"), str(tmp_path / "gone.log"), "no-such-run"):
        with pytest.raises(NotFound):
            diagnose.diagnose(paths, word)


def test_a_log_that_may_not_be_read_is_wrong_usage(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "rank_0.log"
    log.symlink_to("/proc/self/mem")  # opens, and refuses to be read
    with pytest.raises(UsageError) as refused:
        diagnose.diagnose(paths, str(log))
    assert refused.value.says == "error.log-unreadable"
