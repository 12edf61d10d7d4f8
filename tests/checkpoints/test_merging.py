"""What a merge refuses, by name and all at once; made from bytes, without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoints import folders
from zeroboard.checkpoints.merging import MergePlan, plan_merge, resolve
from zeroboard.checkpoints.targets import read_targets, stored_transposed
from zeroboard.errors import NotFound, Refused
from zeroboard.messages import LANGUAGES, has, say


def refused(adapter: Path, base: Path | None = None) -> list[str]:
    """The keys of the sentences; each must exist with its remedy."""
    with pytest.raises(Refused) as error:
        plan_merge(adapter, base)
    for problem in error.value.problems:
        for language in LANGUAGES:
            for key in (problem.message_key, problem.remedy_key):
                assert has(key, language) and "{" not in say(key, language, **problem.params), key
    return [problem.message_key for problem in error.value.problems]


def test_a_sound_adapter_is_planned(tmp_path: Path) -> None:
    folder = folders.adapter(tmp_path / "a", tmp_path / "base")
    plan = plan_merge(folder)
    changed = {name: output.change.pair for name, output in plan.outputs.items() if output.change.pair}
    assert set(changed) == {f"model.layers.{n}.self_attn.{t}_proj.weight" for n in range(2) for t in "qv"}
    assert all(pair.scale == 2.0 and not pair.transposed for pair in changed.values())
    assert plan.changed == 4 and plan.base == tmp_path / "base" and not plan.notes
    assert {output.entry.dtype for output in plan.outputs.values()} == {"F32"}
    assert plan.bytes == sum(array.nbytes for array in folders.model_arrays().values())
    assert plan.config == folders.CONFIG


def test_the_type_is_in_the_config_and_only_numbers_take_it(tmp_path: Path) -> None:
    folders.model(tmp_path / "base", torch_dtype="float32", _name_or_path="/models/somebody")
    plan: MergePlan = plan_merge(folders.adapter(tmp_path / "a", tmp_path / "base"), dtype="fp16")
    assert plan.config["dtype"] == plan.config["torch_dtype"] == "float16"
    assert "_name_or_path" not in plan.config
    assert {output.entry.dtype for output in plan.outputs.values()} == {"F16"}


def test_shards_are_read_where_they_lie(tmp_path: Path) -> None:
    folders.shards(tmp_path / "base")
    plan = plan_merge(folders.adapter(tmp_path / "a", tmp_path / "base"))
    files = {output.start.path.name for output in plan.outputs.values()}
    assert files == {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}


QUANTISED: dict[str, Any] = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}


def test_never_into_quantised_weights(tmp_path: Path) -> None:
    folders.model(tmp_path / "base", **QUANTISED)
    folder = folders.adapter(tmp_path / "a", tmp_path / "base")
    assert refused(folder) == ["merge.quantised"]
    folders.model(tmp_path / "whole")
    assert plan_merge(folder, tmp_path / "whole").changed == 4
    nested = folders.model(tmp_path / "nested", text_config=QUANTISED)
    assert refused(folder, nested) == ["merge.quantised"]
    gguf = tmp_path / "gguf"
    gguf.mkdir()
    (gguf / "model-q4_0.gguf").write_bytes(b"GGUF")
    assert refused(folder, gguf) == ["merge.quantised"]
    assert refused(folder, gguf / "model-q4_0.gguf") == ["merge.quantised"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"peft_type": "LOHA"}, "merge.other-adapter"),
        ({"peft_type": "IA3"}, "merge.other-adapter"),
        ({"peft_type": "VERA"}, "merge.other-adapter"),
        ({"init_lora_weights": "pissa_niter_16"}, "merge.init"),
        ({"init_lora_weights": "olora"}, "merge.init"),
        ({"init_lora_weights": "loftq"}, "merge.init"),
        ({"target_parameters": ["experts.gate_up_proj"]}, "merge.variant"),
        ({"alora_invocation_tokens": [1, 2]}, "merge.variant"),
        ({"layer_replication": [[0, 2], [0, 2]]}, "merge.variant"),
        ({"r": 0}, "check.config.bad-size"),
        ({"r": 3}, "check.shapes.rank"),
        ({"target_modules": ["q_proj", "v_proj", "o_proj"]}, "check.keys.module-missing"),
    ],
)
def test_what_is_no_sum_of_matrices_is_refused_by_name(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    assert refused(folders.adapter(tmp_path / "a", tmp_path / "base", **changes)) == [says]


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    folders.model(tmp_path / "base", **QUANTISED)
    changes = {"init_lora_weights": "corda", "use_qalora": True}
    folder = folders.adapter(tmp_path / "a", tmp_path / "base", **changes)
    assert refused(folder) == ["merge.init", "merge.variant", "merge.quantised"]
    (folder / "adapter_model.safetensors").write_bytes(b"\0" * 40)
    assert len(refused(folder)) == 4


def test_files_that_are_missing_or_damaged(tmp_path: Path) -> None:
    folder = folders.adapter(tmp_path / "a", tmp_path / "base")
    with pytest.raises(NotFound):
        plan_merge(tmp_path / "gone")
    assert refused(folder, tmp_path / "gone") == ["load.base-gone"]
    weights = tmp_path / "base" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-8])
    assert refused(folder) == ["check.base.damaged"]
    weights.unlink()
    (tmp_path / "base" / "pytorch_model.bin").write_bytes(b"")
    assert refused(folder) == ["load.no-safetensors"]
    weights.write_bytes(whole)
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    assert refused(folder) == ["merge.no-safetensors"]


def test_an_adapter_of_another_base_does_not_fit(tmp_path: Path) -> None:
    folder = folders.adapter(tmp_path / "a", tmp_path / "base")
    other = folders.model(
        tmp_path / "wider", folders.model_arrays(folders.CONFIG | {"hidden_size": 32}), hidden_size=32
    )
    assert refused(folder, other) == ["check.base.does-not-fit"]


def test_names_that_find_no_place_in_an_unknown_layout(tmp_path: Path) -> None:
    """As of a model that nests its language model under other names on disk."""
    arrays = {f"language_model.{name}": array for name, array in folders.model_arrays().items()}
    base = folders.model(tmp_path / "base", arrays, model_type="some-vision-model")
    assert refused(folders.adapter(tmp_path / "a", base)) == ["merge.no-place"]


def test_an_output_layer_that_is_tied_to_who_knows_what(tmp_path: Path) -> None:
    arrays = {n.replace("embed_tokens", "tokens"): a for n, a in folders.model_arrays().items() if "lm_head" not in n}
    base = folders.model(tmp_path / "base", arrays, model_type="unheard-of", tie_word_embeddings=True)
    changed = folders.adapter_arrays() | {
        "base_model.model.lm_head.lora_A.weight": np.ones((2, 16), np.float32),
        "base_model.model.lm_head.lora_B.weight": np.ones((40, 2), np.float32),
    }
    folder = folders.adapter(tmp_path / "a", base, changed, target_modules=["q_proj", "v_proj", "lm_head"])
    assert refused(folder) == ["merge.no-place"]


def test_shapes_in_an_unknown_layout(tmp_path: Path) -> None:
    base = folders.model(tmp_path / "base", model_type="unheard-of")
    arrays = folders.adapter_arrays()
    name = "base_model.model.model.layers.0.mlp.up_proj.weight"
    arrays[name] = np.zeros((3, 3), np.float32)
    folder = folders.adapter(tmp_path / "a", base, arrays, modules_to_save=["up_proj"])
    assert refused(folder) == ["merge.shape"]


@pytest.mark.parametrize(("dtype", "says"), [("F4", "merge.dtype"), ("I8", "merge.quantised")])
def test_types_that_no_sum_can_be_made_in(tmp_path: Path, dtype: str, says: str) -> None:
    folder = folders.adapter(tmp_path / "a", tmp_path / "base")
    array = np.zeros((16, 64), np.uint8)  # as many bytes as the matrix has in F32
    name = "model.layers.0.self_attn.q_proj.weight"
    arrays = {k: v for k, v in folders.model_arrays().items() if k != name}
    path = tmp_path / "base" / "model.safetensors"
    folders.write_safetensors(path, arrays)
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    width = 16 if dtype == "I8" else 64
    header[name] = {"dtype": dtype, "shape": [16, 16], "data_offsets": [len(data), len(data) + 16 * width]}
    folders.write_raw(path, header, data + array.tobytes()[: 16 * width])
    assert refused(folder) == [says]


def test_tokens_need_their_rows(tmp_path: Path) -> None:
    folders.model(tmp_path / "base")
    name = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"
    arrays = folders.adapter_arrays() | {name: np.ones((2, 16), np.float32)}
    for rows, says in (([1, 39], []), ([1, 2, 3], ["merge.no-place"]), ([1, 40], ["merge.shape"])):
        folder = folders.adapter(tmp_path / "a", tmp_path / "base", arrays, trainable_token_indices=rows)
        if says:
            assert refused(folder) == says
        else:
            assert plan_merge(folder).outputs["model.embed_tokens.weight"].change.rows == (1, 39)


def test_older_files_leave_the_models_prefix_out() -> None:
    assert resolve("transformer.h.0.weight", {"h.0.weight"}) == "h.0.weight"
    assert resolve("model.norm.weight", {"model.norm.weight", "norm.weight"}) == "model.norm.weight"
    assert resolve("vision.norm.weight", {"norm.weight"}) is None


def test_scales_follow_patterns_and_the_root_of_the_rank() -> None:
    config = {"r": 4, "lora_alpha": 8, "rank_pattern": {"q_proj": 16}, "alpha_pattern": {r"layers\.1\..*": 2.0}}
    targets = read_targets(config)
    assert targets.scale("layers.0.v_proj") == 2.0
    assert targets.scale("layers.0.q_proj") == 0.5
    assert targets.scale("layers.1.v_proj") == 0.5
    assert read_targets(json.loads(json.dumps(config)) | {"use_rslora": True}).scale("layers.0.q_proj") == 2.0


def test_conv1d_is_known_by_the_model_and_not_by_the_last_layer_that_peft_met() -> None:
    assert stored_transposed("transformer.h.0.attn.c_proj", "gpt2", False)
    assert not stored_transposed("lm_head", "gpt2", True)
    assert stored_transposed("x.y", "llama", True) and not stored_transposed("x.y", "llama", False)
