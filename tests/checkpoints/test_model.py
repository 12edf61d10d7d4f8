from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import folders
from tests.checkpoints.folders import faults, found, judged, passed

Q = "model.layers.1.self_attn.q_proj.weight"


def test_a_sound_model_passes_everything(tmp_path: Path) -> None:
    verdict = judged(folders.model(tmp_path / "m"))
    assert verdict.kind == "full-model"
    assert not faults(verdict)
    assert {"complete", "keys", "shapes", "finite", "config", "dtype", "tokenizer", "template"} <= passed(verdict)
    assert verdict.facts["parameters"] == sum(a.size for a in folders.model_arrays().values())


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    arrays = folders.model_arrays()
    del arrays[Q]
    verdict = judged(folders.model(tmp_path / "m", arrays))
    assert found(verdict, "check.keys.missing").params["names"] == Q


def test_only_tied_weights_may_leave_out_the_output_layer(tmp_path: Path) -> None:
    arrays = folders.model_arrays()
    del arrays["lm_head.weight"]
    assert not faults(judged(folders.model(tmp_path / "tied", arrays, tie_word_embeddings=True)))
    assert faults(judged(folders.model(tmp_path / "own", arrays))) == {"check.keys.missing": "fail"}


def test_an_unknown_tensor_warns_and_an_old_buffer_does_not(tmp_path: Path) -> None:
    arrays = folders.model_arrays() | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(2, np.float32)}
    assert not faults(judged(folders.model(tmp_path / "buffer", arrays)))
    arrays["model.layers.7.mlp.up_proj.weight"] = np.eye(3, dtype=np.float32)
    assert faults(judged(folders.model(tmp_path / "unknown", arrays))) == {"check.keys.unknown": "warn"}


def test_a_vocabulary_that_the_config_contradicts_tells_both_numbers(tmp_path: Path) -> None:
    verdict = judged(folders.model(tmp_path / "m", vocab_size=48))
    check = found(verdict, "check.shapes.not-config")
    assert check.params["count"] == 2
    assert check.params["shape"] == "[40, 16]" and check.params["config"] == "[48, 16]"


def test_ungathered_tensors_fail_as_shapes(tmp_path: Path) -> None:
    arrays = {name: np.zeros(0, np.float32) for name in folders.model_arrays()}
    verdict = judged(folders.model(tmp_path / "m", arrays))
    assert faults(verdict) == {"check.shapes.empty": "fail"}


def test_not_a_number_names_tensor_and_element(tmp_path: Path) -> None:
    arrays = folders.model_arrays()
    arrays[Q][2, 3] = np.nan
    verdict = judged(folders.model(tmp_path / "m", arrays))
    assert faults(verdict) == {"check.finite.not-finite": "fail"}
    params = found(verdict, "check.finite.not-finite").params
    assert (params["names"], params["element"]) == (Q, 2 * 16 + 3)


def test_a_constant_matrix_warns_and_a_norm_of_ones_does_not(tmp_path: Path) -> None:
    arrays = folders.model_arrays()
    arrays["model.norm.weight"][:] = 1
    assert not faults(judged(folders.model(tmp_path / "norm", arrays)))
    arrays[Q][:] = 0
    assert faults(judged(folders.model(tmp_path / "matrix", arrays))) == {"check.finite.constant": "warn"}


def test_an_architecture_that_is_not_known_is_judged_as_far_as_it_can_be(tmp_path: Path) -> None:
    verdict = judged(folders.model(tmp_path / "m", model_type="brand-new"))
    assert not faults(verdict)
    assert found(verdict, "check.keys.unknown-layout").verdict == "skip"
    verdict = judged(folders.model(tmp_path / "n", model_type="brand-new", vocab_size=99))
    assert faults(verdict) == {"check.shapes.rows": "fail"}


def test_another_type_than_the_config_names_warns(tmp_path: Path) -> None:
    assert faults(judged(folders.model(tmp_path / "m", dtype="bfloat16"))) == {"check.dtype.not-config": "warn"}


@pytest.mark.parametrize("content", ["", "[]", "{", "null", '{"model_type": 3}', "[" * 50_000, "\x00"])
def test_a_broken_config_is_a_verdict(tmp_path: Path, content: str) -> None:
    folder = folders.model(tmp_path / "m")
    (folder / "config.json").write_text(content)
    assert any(key.startswith("check.config.") for key in faults(judged(folder)))


@pytest.mark.parametrize("size", [-1, 10**30, "16", None, True, 1.5])
def test_an_absurd_size_in_the_config_is_a_verdict(tmp_path: Path, size: object) -> None:
    verdict = judged(folders.model(tmp_path / "m", num_hidden_layers=size))
    assert faults(verdict)["check.config.bad-size"] == "fail"


def test_a_missing_config_and_missing_weights_are_named(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    (folder / "config.json").unlink()
    assert faults(judged(folder))["check.config.missing"] == "fail"
    folder = folders.model(tmp_path / "n")
    (folder / "model.safetensors").unlink()
    verdict = judged(folder)
    assert verdict.kind == "full-model"
    assert faults(verdict) == {"check.complete.no-weights": "fail"}
