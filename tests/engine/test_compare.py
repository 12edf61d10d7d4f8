"""The comparison after a merge passes what is right and fails what is broken on purpose."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine.results import make_adapter
from zeroboard.checkpoints import merging
from zeroboard.checkpoints.targets import Targets
from zeroboard.contract.reports import Check, VerifyReport
from zeroboard.contract.requests import VERB_LINE, Answer, CompareRequest, MergeRequest
from zeroboard.engine import compare, load, merge
from zeroboard.engine.channel import Channel
from zeroboard.messages import LANGUAGES, has, say


def soft(folder: Path, base: Path, size: float = 0.02) -> Path:
    """An adapter whose effect is of the size that trainings have."""
    make_adapter(folder, base)
    weights = folder / "adapter_model.safetensors"
    save_file({n: t * size if "lora_B" in n else t for n, t in load_file(weights).items()}, weights, {"format": "pt"})
    return folder


def compared(adapter: Path, base: Path, merged: Path) -> VerifyReport:
    request = CompareRequest(merged=str(merged), path=str(adapter), base=str(base))
    sink = io.BytesIO()
    assert compare.main(Channel(source=io.StringIO(request.model_dump_json() + "\n"), sink=sink)) == 0
    *progress, answer = [VERB_LINE.validate_json(line) for line in sink.getvalue().splitlines()]
    assert progress and isinstance(answer, Answer) and not answer.problems
    report = VerifyReport.model_validate(answer.value)
    for check in report.checks:
        for language in LANGUAGES:
            assert has(check.says, language) and "{" not in say(check.says, language, **check.params)
    return report


def check(report: VerifyReport, name: str) -> Check:
    (found,) = [c for c in report.checks if c.name == name]
    return found


def merge_to(target: Path, adapter: Path, base: Path, dtype: str | None = None) -> Path:
    merge.merge(MergeRequest(path=str(adapter), base=str(base), target=str(target), dtype=dtype))  # type: ignore[arg-type]
    return target


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_a_right_merge_passes(dtype: str, tmp_path: Path, tiny_model_folder: Path) -> None:
    adapter = soft(tmp_path / "a", tiny_model_folder)
    report = compared(adapter, tiny_model_folder, merge_to(tmp_path / "m", adapter, tiny_model_folder, dtype))
    assert report.verdict == "pass", report.checks
    numbers = report.facts["merge"]
    assert isinstance(numbers, dict)
    # what is allowed is small beside what was trained, so that a fault would be seen
    assert 10 * numbers["rounding"] < numbers["effect"], numbers  # type: ignore[operator]


def test_a_flipped_scale_fails(tmp_path: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = soft(tmp_path / "a", tiny_model_folder)
    right = Targets.scale
    monkeypatch.setattr(Targets, "scale", lambda self, module: -right(self, module))
    report = compared(adapter, tiny_model_folder, merge_to(tmp_path / "m", adapter, tiny_model_folder, "bf16"))
    assert check(report, "merge").says == "check.merge.differs"
    assert report.verdict == "fail"


def test_a_layer_that_was_left_out_fails(
    tmp_path: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = soft(tmp_path / "a", tiny_model_folder)
    plan = merging.plan_merge(adapter, tiny_model_folder)
    name = "model.layers.1.mlp.up_proj.weight"
    short = replace(plan, outputs=plan.outputs | {name: replace(plan.outputs[name], change=merging.Change())})
    monkeypatch.setattr(merge, "plan_merge", lambda *given, **options: short)
    report = compared(adapter, tiny_model_folder, merge_to(tmp_path / "m", adapter, tiny_model_folder))
    assert check(report, "merge").verdict == "fail"


def test_the_base_itself_is_no_merge(tmp_path: Path, tiny_model_folder: Path) -> None:
    report = compared(soft(tmp_path / "a", tiny_model_folder), tiny_model_folder, tiny_model_folder)
    assert check(report, "merge").verdict == "fail"
    assert check(report, "effect").says == "check.effect.none"


def test_what_rounding_drowns_is_told(tmp_path: Path, tiny_model_folder: Path) -> None:
    adapter = soft(tmp_path / "a", tiny_model_folder, 1e-5)
    report = compared(adapter, tiny_model_folder, merge_to(tmp_path / "m", adapter, tiny_model_folder, "bf16"))
    assert check(report, "merge").verdict == "pass"
    assert check(report, "effect").says == "check.effect.drowned"


def test_a_model_that_does_not_fit_is_skipped(
    tmp_path: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = soft(tmp_path / "a", tiny_model_folder)
    target = merge_to(tmp_path / "m", adapter, tiny_model_folder)
    monkeypatch.setattr(load, "available_memory", lambda: load.SPARE + 100)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    report = compared(adapter, tiny_model_folder, target)
    assert [check(report, name).verdict for name in ("load", "merge", "effect")] == ["skip"] * 3
    assert report.verdict == "pass"


def test_a_merged_folder_that_is_gone_is_a_problem(tmp_path: Path) -> None:
    request = CompareRequest(merged=str(tmp_path / "gone"), path=str(tmp_path)).model_dump_json()
    sink = io.BytesIO()
    assert compare.main(Channel(source=io.StringIO(request), sink=sink)) == 0
    answer = VERB_LINE.validate_json(sink.getvalue().splitlines()[-1])
    assert isinstance(answer, Answer) and answer.problems[0].code == "model-missing"
