"""Data judged in the background: with progress, once for all who look, and ended when it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from zeroboard.contract.reports import DataReport
from zeroboard.contract.spec import DataSpec
from zeroboard.data.records import OnProgress
from zeroboard.errors import NotFound
from zeroboard.paths import Paths
from zeroboard.services import judging
from zeroboard.services.judging import Judging, judged_now

ROW = '{"instruction": "Hi", "output": "Hello"}\n'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text(ROW)
    return file


class Slow:
    """In the place of `judge`: half of the file, then as long as it takes."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.calls = 0
        self.error: Exception | None = None

    def __call__(self, path: Path, *, columns: object, mix: object, on_progress: OnProgress | None) -> DataReport:
        assert on_progress is not None
        self.calls += 1
        while not self.go_on.is_set():
            on_progress(0.5)
        if self.error is not None:
            raise self.error
        return DataReport(path=str(path), format="alpaca", encoding="utf-8", total=1, usable=1, refused=0, changed=0)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    made = Slow()
    monkeypatch.setattr(judging, "judge", made)
    yield made
    made.go_on.set()


def test_a_small_file_is_judged_at_the_first_look(data: Path) -> None:
    found = Judging(Paths(data.parent)).look(str(data), wait=20.0)
    assert found.report is not None and found.report.usable == 1 and found.done is None
    assert found.problem(str(data)) is None


def test_a_long_one_shows_how_far_it_is_and_is_read_once_for_all(data: Path, slow: Slow) -> None:
    desk = Judging(Paths(data.parent))
    first = desk.look(str(data), wait=0.05)
    assert first.report is None and first.problem(str(data)) is not None
    until = time.monotonic() + 10
    while desk.look(str(data), wait=0.0).done != 0.5:
        assert time.monotonic() < until
    problem = desk.look(str(data), wait=0.0).problem(str(data))
    assert problem is not None and (problem.code, problem.severity) == ("data-unjudged", "error")
    slow.go_on.set()
    done = desk.look(str(data), wait=10.0)
    assert done.report is not None and slow.calls == 1
    assert judged_now(Paths(data.parent), DataSpec(path=str(data))).report is done.report, "it is read once"


def test_a_stop_ends_it_until_it_is_asked_for_again(data: Path, slow: Slow) -> None:
    desk = Judging(Paths(data.parent))
    desk.look(str(data), wait=0.0)
    desk.stop(str(data))
    found = desk.look(str(data), wait=10.0)
    assert found.stopped and found.report is None
    problem = found.problem(str(data))
    assert problem is not None and problem.message_key == "problem.data-unjudged.stopped"
    assert desk.look(str(data)).stopped and slow.calls == 1
    slow.go_on.set()
    desk.again(str(data))
    assert desk.look(str(data), wait=10.0).report is not None


def test_what_nobody_looks_at_ends_by_itself(data: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "ABANDONED", 0.05)
    desk = Judging(Paths(data.parent))
    desk.look(str(data), wait=0.0)
    until = time.monotonic() + 10
    while any(thread.name == "judging" for thread in threading.enumerate()):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert slow.calls == 1


def test_what_is_missing_or_breaks_is_told_to_who_looks(tmp_path: Path, data: Path, slow: Slow) -> None:
    desk = Judging(Paths(data.parent))
    absent = desk.look(str(tmp_path / "none"))
    assert isinstance(absent.error, NotFound)
    problem = absent.problem("none")
    assert problem is not None and problem.code == "data-missing"
    slow.error = RuntimeError("broken")
    slow.go_on.set()
    with pytest.raises(RuntimeError, match="broken"):
        desk.look(str(data), wait=10.0)


def test_other_columns_are_another_report(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("Anliegen,Entgegnung\nHi,Hallo\nTag,Guten Tag\n")
    desk, columns = Judging(Paths(tmp_path)), {"instruction": "Anliegen", "output": "Entgegnung"}
    assert desk.look(str(file), wait=20.0).report != desk.look(str(file), columns=columns, wait=20.0).report
    spec = DataSpec.model_validate({"path": str(file), "columns": {**columns, "system": ""}})
    found = judged_now(Paths(tmp_path), spec).report
    assert found is not None and found.usable == 2 and spec.chosen == columns


def mixed(tmp_path: Path, **changes: object) -> DataSpec:
    for file in (tmp_path / "more.jsonl", tmp_path / "held.jsonl"):
        if not file.exists():
            file.write_text(ROW)
    wish = {"path": str(tmp_path / "rows.jsonl"), "more": [str(tmp_path / "more.jsonl")]}
    return DataSpec.model_validate(wish | changes)


def test_another_weight_reads_no_file_again_and_another_file_does(paths: Paths, tmp_path: Path, data: Path) -> None:
    first = judged_now(paths, mixed(tmp_path)).report
    assert first is not None and first.total == 2 and [p.code for p in first.problems] == ["duplicate-row"]
    heavy = mixed(tmp_path, weight=2, more=[{"path": str(tmp_path / "more.jsonl"), "weight": 0.5}])
    assert judged_now(paths, heavy).report is first
    assert Judging(paths).look(heavy.path, mix=heavy.mix, wait=0.0).report is first
    (tmp_path / "more.jsonl").write_text(ROW * 2)
    again = Judging(paths).look(heavy.path, mix=heavy.mix, wait=20.0).report
    assert again is not None and again.total == 3
    held = mixed(tmp_path, eval_path=str(tmp_path / "held.jsonl"))
    found = judged_now(paths, held).report
    assert found is not None and found.evaluation is not None and found.evaluation.overlap == 1


@pytest.mark.parametrize(
    ("changes", "field", "absent"),
    [
        ({"path": "none-1"}, "data.path", "none-1"),
        ({"more": ["none-2"]}, "data.more", "none-2"),
        ({"eval_path": "none-3"}, "data.eval_path", "none-3"),
    ],
)
def test_whichever_file_is_missing_is_named_by_its_field(
    paths: Paths, tmp_path: Path, data: Path, changes: dict[str, object], field: str, absent: str
) -> None:
    spec = mixed(tmp_path, **changes)
    for judged in (judged_now(paths, spec), Judging(paths).look(spec.path, mix=spec.mix, wait=20.0)):
        problem = judged.problem(spec.path, spec.mix)
        assert problem is not None and (problem.code, problem.field) == ("data-missing", field)
        assert problem.params["path"] == absent


@pytest.mark.parametrize("name", ["rows.jsonl", "more", "held.jsonl"])
def test_whichever_file_is_closed_is_named_by_its_field(
    paths: Paths, tmp_path: Path, data: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.jsonl").write_text(ROW)
    spec = mixed(tmp_path, more=["more"], eval_path="held.jsonl")
    closed = tmp_path / ("more/a.jsonl" if name == "more" else name)

    def judge(*given: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", str(closed))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(judging, "judge", judge)
    problem = judged_now(paths, spec).problem(spec.path, spec.mix)
    fields = {"rows.jsonl": "data.path", "more": "data.more", "held.jsonl": "data.eval_path"}
    assert problem is not None and (problem.message_key, problem.field) == (
        "problem.data-missing.unreadable", fields[name],
    )  # fmt: skip
    assert problem.params["path"] == str(tmp_path / name)
