"""What the verification of a result is told of the run."""

from __future__ import annotations

from pathlib import Path

from tests.fakes import make_run
from zeroboard.contract.plan import ModelFacts
from zeroboard.paths import Paths
from zeroboard.planning.specs import read_spec
from zeroboard.planning.tokens import tokens_key
from zeroboard.runs.ending import trained_rows
from zeroboard.runs.registry import read_plan


def test_rows_are_compared_only_with_the_data_that_was_tokenised(paths: Paths, tmp_path: Path) -> None:
    run = make_run(paths)
    spec, _ = read_spec(run.spec)
    plan = read_plan(run)
    assert spec is not None and plan.resolved is not None
    assert trained_rows(paths, plan, spec) is None  # which model it was is not known
    data = tmp_path / "data.jsonl"
    data.write_text("{}\n")
    model = ModelFacts(path=plan.resolved.model_path, name="tiny")
    key = tokens_key(data, model, spec.data.max_length, evaluation=spec.data.evaluation, seed=spec.train.seed)
    resolved = plan.resolved.model_copy(update={"data_path": str(data), "tokens_key": key})
    plan = plan.model_copy(update={"model": model, "resolved": resolved})
    rows = trained_rows(paths, plan, spec)
    assert rows is not None and rows.unchanged
    assert rows.tokens == str(paths.tokens / key) and rows.max_length == spec.data.max_length
    for change in (lambda: data.write_text("{} \n"), data.unlink):
        change()
        rows = trained_rows(paths, plan, spec)
        assert rows is not None and not rows.unchanged
