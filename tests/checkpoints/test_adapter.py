from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import folders
from tests.checkpoints.folders import adapter_arrays, faults, found, judged, passed

PREFIX = "base_model.model.model.layers."
A = PREFIX + "1.self_attn.v_proj.lora_A.weight"
B = PREFIX + "1.self_attn.v_proj.lora_B.weight"


def test_a_sound_adapter_passes_everything(tmp_path: Path) -> None:
    verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base"))
    assert verdict.kind == "lora-adapter"
    assert not faults(verdict)
    assert {"complete", "keys", "shapes", "finite", "trained", "base", "tokenizer", "template"} <= passed(verdict)
    assert verdict.facts["rank"] == 2


def test_an_adapter_whose_second_matrices_are_zero_was_not_trained(tmp_path: Path) -> None:
    arrays = {name: x * ("lora_A" in name) for name, x in adapter_arrays().items()}
    verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base", arrays))
    assert faults(verdict) == {"check.trained.all-zero": "fail"}


def test_one_zero_matrix_is_a_warning_that_names_it(tmp_path: Path) -> None:
    arrays = adapter_arrays()
    arrays[B][:] = 0
    verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base", arrays))
    assert faults(verdict) == {"check.trained.some-zero": "warn"}
    assert found(verdict, "check.trained.some-zero").params["names"] == B


def test_a_zero_first_matrix_changes_nothing_either(tmp_path: Path) -> None:
    arrays = adapter_arrays()
    arrays[A][:] = 0
    verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base", arrays))
    assert faults(verdict) == {"check.trained.dead": "fail"}


def test_names_with_one_prefix_too_many_fail(tmp_path: Path) -> None:
    arrays = {name.replace("model.model.", "model.model.model."): x for name, x in adapter_arrays().items()}
    verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base", arrays))
    assert faults(verdict)["check.keys.not-in-base"] == "fail"
    assert found(verdict, "check.keys.not-in-base").params["count"] == 8


@pytest.mark.parametrize("with_base", [True, False])
def test_a_target_without_tensors_is_named(tmp_path: Path, with_base: bool) -> None:
    arrays = {name: x for name, x in adapter_arrays().items() if "layers.1.self_attn.v_proj" not in name}
    folder = folders.adapter(tmp_path / "a", tmp_path / "base", arrays)
    if not with_base:
        (tmp_path / "base" / "model.safetensors").unlink()
    verdict = judged(folder)
    check = found(verdict, "check.keys.module-missing" if with_base else "check.keys.gap")
    assert check.params["names"] == PREFIX + "1.self_attn.v_proj"
    assert check.verdict == ("fail" if with_base else "warn")


def test_half_a_pair_fails(tmp_path: Path) -> None:
    arrays = adapter_arrays()
    del arrays[A]
    verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base", arrays))
    assert found(verdict, "check.keys.half-pair").params["names"] == A


def test_a_rank_that_the_config_contradicts_fails(tmp_path: Path) -> None:
    verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base", r=8))
    assert faults(verdict) == {"check.shapes.rank": "fail"}


def test_a_matrix_that_is_only_a_vector_is_a_verdict(tmp_path: Path) -> None:
    arrays = adapter_arrays()
    arrays[A] = arrays[A][0]
    verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base", arrays))
    assert faults(verdict)["check.base.does-not-fit"] == "fail"


def test_ranks_by_pattern_are_normal(tmp_path: Path) -> None:
    arrays = adapter_arrays(rank=3)
    pattern = {"self_attn.q_proj": 3, "layers.[01].self_attn.v_proj": 3}
    verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base", arrays, rank_pattern=pattern))
    assert not faults(verdict)


def test_chosen_layers_are_normal(tmp_path: Path) -> None:
    arrays = {name: x for name, x in adapter_arrays().items() if "layers.1." in name}
    verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base", arrays, layers_to_transform=[1]))
    assert not faults(verdict)


def test_dora_biases_and_saved_modules_are_normal(tmp_path: Path) -> None:
    arrays = adapter_arrays()
    for layer in range(2):
        arrays[f"{PREFIX}{layer}.self_attn.q_proj.lora_magnitude_vector"] = np.arange(1, 17, dtype=np.float32)
        arrays[f"{PREFIX}{layer}.self_attn.v_proj.lora_magnitude_vector"] = np.arange(1, 9, dtype=np.float32)
    arrays["base_model.model.lm_head.weight"] = folders.model_arrays()["lm_head.weight"]
    folder = folders.adapter(tmp_path / "a", tmp_path / "base", arrays, use_dora=True, modules_to_save=["lm_head"])
    assert not faults(judged(folder))


def test_a_base_of_another_size_does_not_fit(tmp_path: Path) -> None:
    config = folders.CONFIG | {"hidden_size": 24}
    base = folders.model(tmp_path / "base", folders.model_arrays(config), hidden_size=24)
    verdict = judged(folders.adapter(tmp_path / "a", base))
    assert faults(verdict) == {"check.base.does-not-fit": "fail"}


def test_a_base_that_is_gone_warns_and_is_named(tmp_path: Path) -> None:
    folder = folders.adapter(tmp_path / "a", tmp_path / "base", base_model_name_or_path="/no/such/place/base-7b")
    verdict = judged(folder)
    assert faults(verdict)["check.base.gone"] == "warn"
    assert found(verdict, "check.base.gone").params["base"] == "/no/such/place/base-7b"


def test_a_base_that_the_caller_gives_goes_first(tmp_path: Path) -> None:
    folder = folders.adapter(tmp_path / "a", tmp_path / "base", base_model_name_or_path="someone/some-model")
    assert not faults(judged(folder, base=tmp_path / "base"))


def test_a_damaged_base_is_told(tmp_path: Path) -> None:
    folder = folders.adapter(tmp_path / "a", tmp_path / "base")
    (tmp_path / "base" / "model.safetensors").write_bytes(b"<html>")
    assert faults(judged(folder))["check.base.damaged"] == "fail"


def test_an_empty_file_and_a_missing_file_fail(tmp_path: Path) -> None:
    folder = folders.adapter(tmp_path / "a", tmp_path / "base", {})
    assert faults(judged(folder)) == {"check.complete.no-tensor": "fail"}
    (folder / "adapter_model.safetensors").unlink()
    verdict = judged(folder)
    assert verdict.kind == "lora-adapter"
    assert faults(verdict) == {"check.complete.no-adapter": "fail"}


@pytest.mark.parametrize(
    "change",
    [
        {"target_modules": None},
        {"target_modules": 7},
        {"target_modules": "(("},
        {"target_modules": "x" * 5000},
        {"r": "two"},
        {"r": -1},
        {"rank_pattern": [1]},
        {"rank_pattern": {"((": 3}},
        {"layers_to_transform": "all"},
        {"modules_to_save": ["(("]},
        {"base_model_name_or_path": 5},
        {"base_model_name_or_path": "a\0b"},
        {"base_model_name_or_path": "x" * 5000},
        {"peft_type": "IA3"},
    ],
)
def test_a_strange_config_is_a_verdict(tmp_path: Path, change: dict[str, object]) -> None:
    verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base", **change))
    # refused, warned about, or said not to have been judged: never passed over
    assert any(check.verdict != "pass" for check in verdict.checks)


def test_all_linear_and_a_pattern_are_targets_too(tmp_path: Path) -> None:
    pattern = r".*\.self_attn\.(q|v)_proj"
    assert not faults(judged(folders.adapter(tmp_path / "a", tmp_path / "base", target_modules=pattern)))
    verdict = judged(folders.adapter(tmp_path / "b", tmp_path / "base", target_modules="all-linear"))
    assert found(verdict, "check.keys.module-missing").params["targets"] == 14


@pytest.mark.parametrize("pattern", ["(.+)+!", "((.|.)*)*x", ".*.*.*.*.*.*.*.*.*.*!", "(.{1,}){9}!"])
@pytest.mark.timeout(10)
def test_a_pattern_that_would_never_end_is_not_tried(tmp_path: Path, pattern: str) -> None:
    for change in ({"target_modules": pattern}, {"rank_pattern": {pattern: 2}}, {"modules_to_save": [pattern]}):
        verdict = judged(folders.adapter(tmp_path / "a", tmp_path / "base", **change))
        assert found(verdict, "check.keys.not-told").verdict == "skip"
