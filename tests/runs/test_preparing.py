"""Before the launch: what was previewed is what is tokenised, of every file that is read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zeroboard.paths import Paths
from zeroboard.runs.context import Context, Failed
from zeroboard.runs.preparing import check_data
from zeroboard.services import prepare

ROW = '{"instruction": "%s", "output": "Yes."}\n'


@pytest.mark.parametrize("changed", ["path", "more", "eval_path", "folder"])
def test_a_file_that_changed_since_the_preview_is_never_trained_on_under_its_name(
    paths: Paths, tmp_path: Path, tiny_model_folder: Path, changed: str
) -> None:
    files = {name: tmp_path / f"{name}.jsonl" for name in ("path", "more", "eval_path")}
    files["folder"] = tmp_path / "set" / "rows.jsonl"
    files["folder"].parent.mkdir()
    for name, file in files.items():
        file.write_text(ROW % name)
    more = f"data.more=[{files['more']}, {{path: {files['folder'].parent}, weight: 0.5}}]"
    data = [f"data.path={files['path']}", more, f"data.eval_path={files['eval_path']}"]
    spec = prepare.load_spec("demo", [f"model.path={tiny_model_folder}", "zero.stage=none", *data])
    plan = prepare.plan(paths, spec)
    assert plan.ok and plan.resolved is not None
    context: Any = SimpleNamespace(plan=plan)
    check_data(cast(Context, context), plan.resolved, spec)
    files[changed].write_text(ROW % "another")
    with pytest.raises(Failed) as failed:
        check_data(cast(Context, context), plan.resolved, spec)
    assert failed.value.problem.code == "plan-changed"
    told = str(failed.value.problem.params["path"])
    assert all(str(file) in told for name, file in files.items() if name != "folder")
