from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine.results import make_adapter, make_full
from zeroboard.contract.reports import Check, VerifyReport
from zeroboard.contract.requests import VERB_LINE, Answer, Progress, VerifyRequest
from zeroboard.engine import load, verify
from zeroboard.engine.channel import Channel
from zeroboard.messages import LANGUAGES, has, say


def run(path: Path, base: Path | None = None, *, loading: bool = True) -> tuple[VerifyReport, list[Progress]]:
    """The verb's answer and its progress; every sentence must exist and be filled."""
    request = VerifyRequest(path=str(path), base=str(base) if base else None, load=loading)
    sink = io.BytesIO()
    assert verify.main(Channel(source=io.StringIO(request.model_dump_json() + "\n"), sink=sink)) == 0
    said = [VERB_LINE.validate_json(line) for line in sink.getvalue().splitlines()]
    progress = [line for line in said if isinstance(line, Progress)]
    answer = said[-1]
    assert isinstance(answer, Answer) and not answer.problems
    report = VerifyReport.model_validate(answer.value)
    for language in LANGUAGES:
        for check in report.checks:
            assert has(check.says, language) and "{" not in say(check.says, language, **check.params)
        assert all(has(line.says or "", language) for line in progress)
    return report, progress


def check(report: VerifyReport, name: str) -> Check:
    (found,) = [c for c in report.checks if c.name == name]
    return found


def test_a_trained_adapter_loads_and_its_effect_is_measured(tmp_path: Path, tiny_model_folder: Path) -> None:
    report, progress = run(make_adapter(tmp_path / "a", tiny_model_folder))
    assert report.verdict == "pass", report.checks
    assert check(report, "load").verdict == check(report, "effect").verdict == "pass"
    effect = report.facts["effect"]
    assert isinstance(effect, dict)
    assert effect["max"] > effect["mean"] > 0  # type: ignore[operator]
    assert 0 < effect["changed"] <= 1  # type: ignore[operator]
    prompts = report.facts["prompts"]
    assert isinstance(prompts, list)
    assert [set(p) for p in prompts] == [{"prompt", "before", "after"}] * 2  # type: ignore[arg-type]
    done = [line.done for line in progress if line.phase == "load"]
    assert done == sorted(done, key=lambda d: d or 0) and done[-1] == 1.0


def test_the_measured_effect_is_that_of_the_adapter(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = make_adapter(tmp_path / "a", tiny_model_folder)
    loaded = load.load_result(folder, None, on_step=lambda says, done: None)
    after = verify.ask_all(loaded.model, loaded)
    with loaded.before() as model:
        before = verify.ask_all(model, loaded)
    plain = load.load_result(tiny_model_folder, None, on_step=lambda says, done: None)
    for old, new, alone in zip(before, after, verify.ask_all(plain.model, plain), strict=True):
        assert torch.equal(old.logits, alone.logits)
        assert not torch.equal(new.logits, alone.logits)


def test_an_untrained_adapter_has_no_effect(tmp_path: Path, tiny_model_folder: Path) -> None:
    report, _ = run(make_adapter(tmp_path / "a", tiny_model_folder, trained=False))
    assert check(report, "trained").verdict == "fail"
    assert check(report, "load").verdict == "pass"
    assert check(report, "effect").verdict == "fail"


def test_a_full_model_is_compared_with_the_base_that_is_named(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = make_full(tmp_path / "m", tiny_model_folder)
    report, _ = run(folder, tiny_model_folder)
    assert report.verdict == "pass", report.checks
    assert check(report, "effect").verdict == "pass"
    report, _ = run(make_full(tmp_path / "same", tiny_model_folder, shift=0.0), tiny_model_folder)
    assert check(report, "effect").verdict == "fail"
    report, _ = run(folder)
    assert check(report, "effect").says == "check.effect.no-base"
    assert "before" not in str(report.facts["prompts"])


def test_damaged_files_are_not_loaded(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = make_full(tmp_path / "m", tiny_model_folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-64])
    report, _ = run(folder)
    assert report.verdict == "fail"
    assert check(report, "load").says == "check.load.files-first"
    assert check(report, "effect").verdict == "skip"


def test_weights_that_find_no_place_are_told(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = make_adapter(tmp_path / "a", tiny_model_folder)
    tensors = load_file(folder / "adapter_model.safetensors")
    renamed = {name.replace("layers.1.self_attn", "layers.1.other"): tensor for name, tensor in tensors.items()}
    save_file(renamed, folder / "adapter_model.safetensors")
    report, _ = run(folder)
    assert check(report, "load").verdict == "fail"
    assert "layers.1.self_attn" in str(check(report, "load").params["names"])


def test_answers_that_are_no_numbers_fail(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = make_full(tmp_path / "m", tiny_model_folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"][0] = torch.nan
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    report, _ = run(folder, tiny_model_folder)
    assert check(report, "load").says == "check.load.not-finite"


def test_a_config_that_no_library_knows_is_a_verdict(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = make_full(tmp_path / "m", tiny_model_folder)
    config = json.loads((folder / "config.json").read_text())
    marker = tmp_path / "ran"
    config |= {
        "model_type": "brand-new",
        "auto_map": {"AutoModelForCausalLM": "modeling_x.X", "AutoConfig": "modeling_x.C"},
    }
    (folder / "modeling_x.py").write_text(f"open({str(marker)!r}, 'w')")
    (folder / "config.json").write_text(json.dumps(config))
    report, _ = run(folder)
    assert check(report, "load").says == "load.failed"
    assert not marker.exists()


def test_what_does_not_fit_is_skipped_with_the_numbers(
    tmp_path: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "available_memory", lambda: load.SPARE + 100)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    report, _ = run(make_adapter(tmp_path / "a", tiny_model_folder))
    assert check(report, "load").verdict == "skip"
    assert check(report, "load").params["available"] == "0.0 GiB"
    assert report.verdict == "pass"


def test_a_model_without_a_template_is_asked_in_chatml(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = make_full(tmp_path / "m", tiny_model_folder)
    (folder / "chat_template.jinja").unlink()
    report, _ = run(folder)
    assert check(report, "load").says == "check.load.ok-chatml"


def test_files_alone_are_judged_when_nothing_is_to_be_loaded(tmp_path: Path, tiny_model_folder: Path) -> None:
    report, progress = run(make_full(tmp_path / "m", tiny_model_folder), loading=False)
    assert check(report, "load").verdict == check(report, "effect").verdict == "skip"
    assert {line.phase for line in progress} == {"files"}


def test_a_path_that_is_gone_is_a_problem(tmp_path: Path) -> None:
    sink = io.BytesIO()
    request = VerifyRequest(path=str(tmp_path / "gone")).model_dump_json()
    assert verify.main(Channel(source=io.StringIO(request), sink=sink)) == 0
    answer = VERB_LINE.validate_json(sink.getvalue())
    assert isinstance(answer, Answer) and answer.problems[0].code == "model-missing"
