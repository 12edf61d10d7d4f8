"""`show`: one run, whole, with everything that it measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import make_run
from tests.ui.scripted import myself
from zeroboard.cli import main
from zeroboard.contract.events import EvalEvent, FindingEvent, MemoryEvent, StepEvent
from zeroboard.contract.findings import Finding
from zeroboard.files import append_line, to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.planning.specs import read_spec, spec_yaml
from zeroboard.runs.registry import read_plan, read_state
from zeroboard.services import show


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run on two GPUs that has a price, steps, an evaluation, peaks and a finding."""
    made = make_run(Paths(tmp_path))
    spec = read_spec(made.spec)[0]
    priced = spec.model_copy(update={"devices": spec.devices.model_copy(update={"price_per_hour": 2.0})})
    write_atomic(made.spec, spec_yaml(priced))
    plan, state = read_plan(made), read_state(made)
    assert plan.resolved is not None
    on_gpus = plan.model_copy(update={"resolved": plan.resolved.model_copy(update={"device": "cuda"})})
    write_atomic(made.plan, on_gpus.model_dump_json())
    put = {"state": "running", "steps": 1000, "step": 900, "started": state.changed - 3600, "supervisor": myself()}
    write_atomic(made.state, to_json(state.model_copy(update=put).model_dump(mode="json")))
    for at in range(1, 901):
        step = StepEvent(
            seq=at, time=state.changed, rank=0, step=at, epoch=at / 100, loss=2.0, learning_rate=1e-3, step_time=4.0
        )
        append_line(made.events, step.model_dump_json())
    for event in (
        EvalEvent(seq=901, time=state.changed, rank=0, step=500, epoch=5.0, loss=None, rows=7, seconds=0.0),
        EvalEvent(seq=902, time=state.changed, rank=0, step=900, epoch=9.0, loss=1.25, rows=7, seconds=0.0),
        MemoryEvent(seq=2, time=state.changed, rank=1, step=1, peak=3 << 30),
        FindingEvent(seq=1, time=state.changed, rank=-1, finding=Finding(code="loss-zero", says="finding.loss-zero")),
    ):
        append_line(made.events, event.model_dump_json())
    return made


def test_the_metrics_are_whole_however_many_there_are(run: RunPaths) -> None:
    said = show.show(Paths(run.folder.parent.parent), run.id)
    assert [step["step"] for step in said["metrics"]] == list(range(1, 901))
    assert {"time", "step", "epoch", "loss", "learning_rate", "grad_norm", "tokens_per_s", "samples_per_s"} <= set(
        said["metrics"][0]
    )
    assert [(held["step"], held["loss"]) for held in said["evaluations"]] == [(500, None), (900, 1.25)]


def test_the_progress_tells_time_costs_and_peaks(run: RunPaths) -> None:
    progress = show.show(Paths(run.folder.parent.parent), run.id)["progress"]
    assert (progress["step"], progress["steps"], progress["epoch"]) == (900, 1000, 9.0)
    assert progress["eta_s"] == pytest.approx(400.0) and progress["elapsed_s"] == pytest.approx(3600.0)
    assert progress["cost"] == pytest.approx(4.0) and progress["cost_expected"] == pytest.approx(4.0 * 4000 / 3600)
    assert progress["peaks"] == {"1": 3 << 30} and progress["mfu"] is None


def test_what_is_noticed_while_it_runs_is_a_finding(run: RunPaths) -> None:
    assert [found["code"] for found in show.show(Paths(run.folder.parent.parent), run.id)["findings"]] == ["loss-zero"]


@pytest.mark.parametrize(
    ("lang", "words"), [("en", "4.00 so far, 4.44 expected"), ("zh-CN", "已花费 4.00，预计共 4.44")]
)
def test_the_command_tells_it_to_people(
    run: RunPaths, capsys: pytest.CaptureFixture[str], lang: str, words: str
) -> None:
    cache = str(run.folder.parent.parent)
    assert main(["--cache", cache, "--lang", lang, "show", run.id]) == 0
    told = capsys.readouterr().out
    assert words in told and "1.25" in told and "3.0 GiB" in told
