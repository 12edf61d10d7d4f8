"""What came out of the runs: found by run or by path, judged from its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import QUICK, make_run, popen
from zeroboard.cli import main
from zeroboard.errors import NotFound
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.supervisor import supervise
from zeroboard.services import results


@pytest.fixture
def finished(tmp_path: Path) -> tuple[Paths, RunPaths]:
    paths = Paths(tmp_path / "cache")
    make_run(paths)  # one that has no result
    run = make_run(paths)
    assert supervise(run, popen=popen, timing=QUICK) == 0
    return paths, run


def test_every_run_with_a_result_is_listed_with_its_verdict(finished: tuple[Paths, RunPaths]) -> None:
    paths, run = finished
    (output,) = results.outputs(paths)
    assert (output.run_id, output.folder, output.base) == (run.id, run.model, paths.models / "tiny")
    assert (output.kind, output.verdict) == ("lora-adapter", "pass")


def test_a_run_stands_for_its_result_and_a_path_for_itself(finished: tuple[Paths, RunPaths]) -> None:
    paths, run = finished
    wanted = results.Place(path=run.model, base=paths.models / "tiny")
    assert results.place(paths, run.id) == results.place(paths, "last") == wanted
    assert results.place(paths, str(run.model)) == results.Place(path=run.model)
    planned = next(s for s in results.registry.list_runs(paths) if s.state == "planned")
    for word in (planned.id, "nobody", "/nowhere"):
        with pytest.raises(NotFound):
            results.place(paths, word)


def test_a_folder_is_judged_from_its_files(
    finished: tuple[Paths, RunPaths], capsys: pytest.CaptureFixture[str]
) -> None:
    paths, run = finished
    report = results.verify(run.model, load=False)
    assert report.verdict == "fail"  # the fake wrote four letters
    skipped = [(c.name, c.verdict, c.says) for c in report.checks if c.name in ("load", "effect")]
    assert skipped == [("load", "skip", "check.load.not-asked"), ("effect", "skip", "check.effect.not-asked")]
    assert main(["verify", run.id, "--cache", str(paths.root)]) == 1
    assert "fail" in capsys.readouterr().out
    with pytest.raises(NotFound):
        results.verify(run.model / "none", load=False)
