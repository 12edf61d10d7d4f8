"""The bundled model: from the package's GGUF file to a folder that loads and answers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from zeroboard.catalogue import MODELS
from zeroboard.contract.requests import VERB_LINE, Answer, ConvertRequest
from zeroboard.engine.convert import gguf_file
from zeroboard.errors import Refused

SMOLLM = MODELS[0]


def ask(request: ConvertRequest) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-m", "zeroboard.engine", "convert"],
        input=request.model_dump_json() + "\n",
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return [VERB_LINE.validate_json(line) for line in done.stdout.splitlines()]


def test_a_missing_package_is_a_problem_that_names_it() -> None:
    with pytest.raises(Refused) as refused:
        gguf_file(replace(SMOLLM, package="llm-elsewhere", module="llm_elsewhere"))
    (problem,) = refused.value.problems
    assert (problem.code, problem.params["package"]) == ("model-missing", "llm-elsewhere")


def test_an_unknown_name_leaves_nothing_behind(tmp_path: Path) -> None:
    (said,) = ask(ConvertRequest(name="Nobody-7B", target=str(tmp_path / "models" / "Nobody-7B")))
    assert isinstance(said, Answer) and [problem.code for problem in said.problems] == ["model-missing"]
    assert not list(tmp_path.iterdir())


@pytest.mark.train
def test_the_bundled_model_is_converted_whole_and_answers(bundled: tuple[Path, list[float | None]]) -> None:
    target, told = bundled
    done = [share for share in told if share is not None]
    assert done == sorted(done) and done[-1] == 1.0
    tokenizer = AutoTokenizer.from_pretrained(target)
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    prompt = tokenizer(text, add_special_tokens=False, return_tensors="pt")
    with torch.no_grad():
        found = model.generate(**prompt, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(found[0, prompt["input_ids"].shape[1] :])
    (said,) = ask(ConvertRequest(name=SMOLLM.name, target=str(target)))[-1:]
    assert isinstance(said, Answer) and said.value == str(target)  # there already
