"""A model's facts from its folder, and what is wrong with a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.planning.facts import TINY, write_model, write_safetensors
from zeroboard.catalogue import MODELS
from zeroboard.checkpoints.verify import verify_files
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.paths import Paths
from zeroboard.planning.models import read_model
from zeroboard.planning.shapes import llama_shapes, shape_facts

ELEMENTS = 384 * 64 * 2 + 2 * (64 * 64 * 2 + 32 * 64 * 2 + 128 * 64 * 3 + 64 * 2) + 64


def refused(ref: str | Path, tmp_path: Path) -> str:
    """The key of the one sentence that refuses; filled in every language."""
    _, problems = read_model(str(ref), Paths(tmp_path / "cache"))
    (problem,) = problems
    for language in LANGUAGES:
        for key in (problem.message_key, problem.remedy_key):
            assert has(key, language), key
            assert "{" not in say(key, language, **problem.params)
    assert problem.field == "model.path"
    return problem.message_key


def test_a_folder_tells_its_shapes(tmp_path: Path) -> None:
    facts, problems = read_model(str(write_model(tmp_path / "tiny")), Paths(tmp_path / "cache"))
    assert problems == () and facts is not None
    assert facts.parameters == ELEMENTS
    assert (facts.layers, facts.hidden, facts.vocabulary, facts.context_length) == (2, 64, 384, 512)
    assert (facts.name, facts.dtype, facts.has_template, facts.prepared) == ("tiny", "float32", True, True)
    assert len(facts.linear_shapes) == 14 and facts.linear_shapes["model.layers.0.self_attn.k_proj.weight"] == (32, 64)
    assert not any("lm_head" in name or "embed" in name for name in facts.linear_shapes)
    assert sum(size * count for size, count in facts.tensor_sizes.items()) == facts.parameters


def test_a_real_models_folder_is_read_as_torch_counts_it(tiny_model_folder: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    facts, problems = read_model(str(tiny_model_folder), Paths(tmp_path))
    model = AutoModelForCausalLM.from_pretrained(tiny_model_folder)
    assert problems == () and facts is not None
    assert facts.parameters == sum(p.numel() for p in model.parameters())
    config = json.loads((tiny_model_folder / "config.json").read_text())
    counted = shape_facts(llama_shapes(config), tied=config["tie_word_embeddings"])
    assert (counted.parameters, counted.linear_shapes) == (facts.parameters, facts.linear_shapes)
    assert counted.tensor_sizes == facts.tensor_sizes


def test_tied_weights_count_once_whether_the_file_holds_both_or_not(tmp_path: Path) -> None:
    tied = {**TINY, "tie_word_embeddings": True}
    both = write_model(tmp_path / "both", tied, llama_shapes(TINY))
    one = write_model(tmp_path / "one", tied, llama_shapes(tied))
    for folder in (both, one):
        facts, _ = read_model(str(folder), Paths(tmp_path))
        assert facts is not None and facts.parameters == ELEMENTS - 384 * 64


def test_weights_in_several_files_are_summed(tmp_path: Path) -> None:
    shapes = list(llama_shapes(TINY).items())
    folder = write_model(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    weight_map: dict[str, str] = {}
    for number, part in enumerate((shapes[:5], shapes[5:])):
        write_safetensors(folder / f"part-{number}.safetensors", dict(part))
        weight_map |= {name: f"part-{number}.safetensors" for name, _ in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    facts, problems = read_model(str(folder), Paths(tmp_path))
    assert problems == () and facts is not None and facts.parameters == ELEMENTS
    (folder / "part-1.safetensors").unlink()
    assert refused(folder, tmp_path) == "problem.model-missing.shard"


def test_a_bundled_model_is_known_before_and_after_it_is_converted(tmp_path: Path) -> None:
    (entry,) = MODELS
    paths = Paths(tmp_path)
    before, _ = read_model(entry.name, paths)
    assert before is not None and not before.prepared
    assert before.parameters == 134_515_008 and before.has_template and before.licence == "apache-2.0"
    config = {**TINY, "tie_word_embeddings": True}
    write_model(entry.folder(paths), config, llama_shapes(config))
    after, problems = read_model(entry.name, paths)
    assert problems == () and after is not None and after.prepared
    assert (after.path, after.name) == (before.path, before.name)


def test_a_folder_that_borrows_the_name_of_a_bundled_model_is_not_taken_for_it(tmp_path: Path) -> None:
    facts, _ = read_model(str(write_model(tmp_path / MODELS[0].name)), Paths(tmp_path / "cache"))
    assert facts is not None and facts.name == facts.path


def test_a_path_is_never_taken_for_a_hub_name(tmp_path: Path) -> None:
    assert refused(tmp_path / "none", tmp_path) == "problem.model-missing"
    assert refused("someone/some-model", tmp_path) == "problem.model-missing.hub"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "problem.model-missing.config"),
        ({"x.gguf": "GGUF"}, "problem.model-missing.gguf"),
        ({"adapter_config.json": "{}"}, "problem.model-missing.adapter"),
        ({"config.json": "{"}, "problem.model-unsupported.config"),
        ({"config.json": "[]"}, "problem.model-unsupported.config"),
    ],
)
def test_a_folder_that_is_no_model_says_what_it_is(tmp_path: Path, files: dict[str, str], says: str) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    assert refused(folder, tmp_path) == says


def test_broken_weights_are_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for content, says in (
        (whole[:-10], "problem.model-missing.cut"),
        (whole[:100], "header.cut"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "header.lfs-pointer"),
        (b"<html>" + b" " * 200, "header.html"),
        (b"\0\0", "header.too-short"),
    ):
        weights.write_bytes(content)
        assert refused(folder, tmp_path) == says
    weights.unlink()
    assert refused(folder, tmp_path) == "problem.model-missing.weights"
    (folder / "pytorch_model.bin").write_bytes(b"x")
    assert refused(folder, tmp_path) == "problem.model-unsupported.pickle"


def test_a_model_without_tokenizer_is_refused_and_one_without_template_is_not(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "chat_template.jinja").unlink()
    facts, problems = read_model(str(folder), Paths(tmp_path))
    assert problems == () and facts is not None and facts.has_template is False
    (folder / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    facts, _ = read_model(str(folder), Paths(tmp_path))
    assert facts is not None and facts.has_template is True
    (folder / "tokenizer.json").unlink()
    assert refused(folder, tmp_path) == "problem.model-missing.tokenizer"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"architectures": ["BertForMaskedLM"]}, "architecture"),
        ({"model_type": "no-such-model"}, "unknown"),
        ({"quantization_config": {"bits": 4}}, "quantized"),
    ],
)
def test_what_cannot_be_trained_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    folder = write_model(tmp_path / "m", {**TINY, **change})
    assert refused(folder, tmp_path) == f"problem.model-unsupported.{says}"


@pytest.mark.parametrize(
    ("change", "key", "kind"),
    [
        ({"hidden_size": "64"}, "hidden_size", "count"),
        ({"num_hidden_layers": 2.5}, "num_hidden_layers", "count"),
        ({"vocab_size": 10**30}, "vocab_size", "count"),
        ({"num_attention_heads": -4}, "num_attention_heads", "count"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings", "switch"),
        ({"rms_norm_eps": "1e-5"}, "rms_norm_eps", "number"),
        ({"rope_theta": float("nan")}, "rope_theta", "number"),
        ({"text_config": [1]}, "text_config", "object"),
        ({"text_config": {"hidden_size": 0}}, "text_config.hidden_size", "count"),
        ({"architectures": [3]}, "architectures", "names"),
    ],
)
def test_values_that_no_rank_could_make_a_model_with_are_named_by_their_key(
    tmp_path: Path, change: dict[str, Any], key: str, kind: str
) -> None:
    _, problems = read_model(str(write_model(tmp_path / "m", {**TINY, **change})), Paths(tmp_path))
    (problem,) = [p for p in problems if p.message_key == f"problem.model-unsupported.value.{kind}"]
    assert problem.severity == "error" and problem.params["key"] == key


def test_counts_may_differ_from_layer_to_layer_or_be_left_out(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", {**TINY, "intermediate_size": [128, 256], "num_key_value_heads": None})
    assert read_model(str(folder), Paths(tmp_path))[1] == ()


def test_own_code_matters_only_where_transformers_has_none(tmp_path: Path) -> None:
    code = {"auto_map": {"AutoModelForCausalLM": "x.Y"}}
    known, _ = read_model(str(write_model(tmp_path / "a", {**TINY, **code})), Paths(tmp_path))
    own, problems = read_model(str(write_model(tmp_path / "b", {**TINY, **code, "model_type": "own"})), Paths(tmp_path))
    assert known is not None and known.remote_code is False
    assert own is not None and own.remote_code is True and problems == ()


def test_the_licence_stands_in_the_readme(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# x\n")
    facts, _ = read_model(str(folder), Paths(tmp_path))
    assert facts is not None and facts.licence == "apache-2.0"


@pytest.mark.parametrize("kind", ["pipe", "folder", "broken link", "loop", "device"])
def test_weights_that_are_no_file_are_missing(tmp_path: Path, kind: str) -> None:
    folder = write_model(tmp_path / "model")
    file = folder / "model.safetensors"
    file.unlink()
    {
        "pipe": lambda: os.mkfifo(file),
        "folder": file.mkdir,
        "broken link": lambda: file.symlink_to("nothing"),
        "loop": lambda: file.symlink_to(file.name),
        "device": lambda: file.symlink_to("/dev/zero"),
    }[kind]()
    _, problems = read_model(str(folder), Paths(tmp_path))
    assert [p.says for p in problems] == ["problem.model-missing.shard"]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ["[" * 100_000, '{"a": ' + "9" * 5000 + "}", '{"a": '])
def test_json_that_breaks_its_reader_is_a_problem_or_no_matter(tmp_path: Path, name: str, content: str) -> None:
    folder = write_model(tmp_path / "model")
    (folder / name).write_text(content)
    _, problems = read_model(str(folder), Paths(tmp_path))
    assert name == "tokenizer_config.json" or problems


@pytest.mark.parametrize("value", [[], ["x"], {"a": 1}, 3, None, True, 1e300, float("nan"), -1])
def test_values_of_any_kind_in_a_configuration_raise_nothing(tmp_path: Path, value: object) -> None:
    folder = write_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    for key in config:
        (folder / "config.json").write_text(json.dumps({**config, key: value}))
        model, problems = read_model(str(folder), Paths(tmp_path))
        assert model is not None or problems, key
        assert verify_files(folder).checks, key


def test_weight_files_that_name_no_tensor_are_no_weights(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    write_safetensors(folder / "model.safetensors", {})
    assert refused(folder, tmp_path) == "problem.model-missing.weights"


def test_two_templates_that_differ_are_told_and_two_that_agree_are_not(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", TINY)
    (folder / "chat_template.jinja").write_text("{{ messages }}\n")
    for inside, told in (("{{ messages }}", []), ("{{ other }}", ["template-mismatch"])):
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": inside}))
        facts, problems = read_model(str(folder), Paths(tmp_path))
        assert facts is not None and [problem.code for problem in problems] == told
    packed = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_storage": "bfloat16"}
    facts, _ = read_model(str(write_model(tmp_path / "q", {**TINY, "quantization_config": packed})), Paths(tmp_path))
    assert facts is not None and (facts.quantized, facts.storage) == ("bitsandbytes", "bfloat16")


def test_weights_without_an_element_are_none(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", TINY)
    for file in folder.glob("*.safetensors"):
        write_safetensors(file, {"model.layers.0.self_attn.q_proj.weight": (0, 4)})
    assert refused(folder, tmp_path) == "problem.model-missing.weights"
