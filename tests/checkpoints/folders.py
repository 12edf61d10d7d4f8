"""Folders made from bytes: a small Llama, its tokenizer, adapters, ZeRO states. Without torch, so that it is fast."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zeroboard.checkpoints.architecture import expected_tensors
from zeroboard.checkpoints.verify import FileVerdict, verify_files
from zeroboard.contract.reports import Check
from zeroboard.messages import LANGUAGES, has, say

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "tie_word_embeddings": False,
    "dtype": "float32",
}

ADAPTER: dict[str, Any] = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "r": 2,
    "lora_alpha": 4,
    "target_modules": ["q_proj", "v_proj"],
    "bias": "none",
}

Arrays = dict[str, np.ndarray[Any, Any]]


def write_safetensors(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]], dtype: str = "F32") -> None:
    """Raw writing, so that any header can be made; arrays of 16-bit integers stand for BF16 and F16."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at, data = 0, []
    for name, array in arrays.items():
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        data.append(raw)
    write_raw(path, header, b"".join(data))


def write_raw(path: Path, header: Mapping[str, Any], data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def model_arrays(config: Mapping[str, Any] = CONFIG) -> Arrays:
    """Random values for every tensor that the config promises."""
    random = np.random.default_rng(0)
    return {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in expected_tensors(config).shapes.items()
    }


def tokenizer(folder: Path, tokens: int = 40, added: int = 0, template: str | None = "{{ messages }}") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    extra = [{"id": tokens + n, "content": f"<{n}>"} for n in range(added)]
    words = {f"t{n}": n for n in range(tokens)}
    write_json(folder / "tokenizer.json", {"model": {"type": "BPE", "vocab": words}, "added_tokens": extra})
    write_json(folder / "tokenizer_config.json", {})
    if template is not None:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def model(folder: Path, arrays: Arrays | None = None, **config: Any) -> Path:
    """A sound model, or one with these arrays or with these changes of its config."""
    tokenizer(folder)
    write_json(folder / "config.json", CONFIG | config)
    write_safetensors(folder / "model.safetensors", model_arrays() if arrays is None else arrays)
    return folder


def shards(folder: Path) -> Path:
    """The same model in two shards with an index."""
    model(folder)
    (folder / "model.safetensors").unlink()
    arrays = model_arrays()
    names = list(arrays)
    parts = {"model-00001-of-00002.safetensors": names[:6], "model-00002-of-00002.safetensors": names[6:]}
    for file, inside in parts.items():
        write_safetensors(folder / file, {name: arrays[name] for name in inside})
    index = {name: file for file, inside in parts.items() for name in inside}
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": index})
    return folder


def adapter_arrays(rank: int = 2) -> Arrays:
    random = np.random.default_rng(1)
    arrays: Arrays = {}
    for layer in range(2):
        for target, out in (("q_proj", 16), ("v_proj", 8)):
            module = f"base_model.model.model.layers.{layer}.self_attn.{target}"
            arrays[f"{module}.lora_A.weight"] = random.standard_normal((rank, 16)).astype(np.float32)
            arrays[f"{module}.lora_B.weight"] = random.standard_normal((out, rank)).astype(np.float32)
    return arrays


def adapter(folder: Path, base: Path, arrays: Arrays | None = None, **config: Any) -> Path:
    """A sound adapter on `base` (which is made when it is not there), or one with these arrays or changes."""
    if not base.exists():
        model(base)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "adapter_config.json", ADAPTER | {"base_model_name_or_path": str(base)} | config)
    write_safetensors(folder / "adapter_model.safetensors", adapter_arrays() if arrays is None else arrays)
    return folder


def states(folder: Path, ranks: int = 2, stage: int = 3, step: int = 4) -> Path:
    """A ZeRO checkpoint by its names, each file a zip as torch writes it."""
    below = folder / f"global_step{step}"
    below.mkdir(parents=True)
    for rank in range(ranks):
        write_zip(below / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
        if stage == 3:
            write_zip(below / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
    if stage < 3:
        write_zip(below / "mp_rank_00_model_states.pt")
    (folder / "latest").write_text(below.name)
    for script in ("zero_to_fp32.py", "zero_to_torch.py"):
        (folder / script).write_text("")
    return folder


def write_zip(path: Path, pickle: bytes = b"\x80\x02}.") -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle)


def judged(path: Path, **options: Any) -> FileVerdict:
    """The verdict on a folder; every sentence in it must exist in every language, with a remedy where it is a fault."""
    verdict = verify_files(path, **options)
    for check in verdict.checks:
        # a brace that is left is a placeholder that nothing filled, unless it came with a value
        params = {
            key: value.replace("{", "") if isinstance(value, str) else value for key, value in check.params.items()
        }
        for language in LANGUAGES:
            assert has(check.says, language), check.says
            assert "{" not in say(check.says, language, **params), (check.says, params)
            if check.verdict in ("fail", "warn"):
                assert has(f"{check.says}.remedy", language), check.says
            assert has(f"check.{check.name}.label", language) and has(f"check.{check.name}.meaning", language)
    return verdict


def faults(verdict: FileVerdict) -> dict[str, str]:
    """Sentence key → verdict, of what failed or warned."""
    return {check.says: check.verdict for check in verdict.checks if check.verdict in ("fail", "warn")}


def found(verdict: FileVerdict, says: str) -> Check:
    """The check with that sentence."""
    (check,) = [check for check in verdict.checks if check.says == says]
    return check


def passed(verdict: FileVerdict) -> set[str]:
    return {check.name for check in verdict.checks if check.verdict == "pass"}
