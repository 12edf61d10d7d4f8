"""What a folder is: an adapter, a model, ZeRO or FSDP states, and facts about it for people. Names and headers only.

The kind is what the folder would be if it were sound: a cut or empty adapter is still an adapter. An adapter or a model
beside ZeRO states is the adapter or the model; its settings alone are neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from zeroboard.checkpoints import states
from zeroboard.checkpoints.findings import printable
from zeroboard.checkpoints.folder import Folder, list_folder
from zeroboard.checkpoints.weights import ADAPTER, INDEX, PICKLED_ADAPTER, PICKLED_MODEL, SINGLE, model_files
from zeroboard.contract.reports import Kind
from zeroboard.errors import BrokenFile
from zeroboard.headers import read_header
from zeroboard.modelfiles import TEMPLATE, TOKENIZER_CONFIG, default_template

ADAPTER_CONFIG = "adapter_config.json"
CONFIG = "config.json"

MOST = 1 << 63
"""No number in a fact is larger: one of thousands of digits could not even be written down."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found. The sentence of a kind is `kind.<kind>`."""

    path: Path
    kind: Kind
    facts: dict[str, JsonValue]
    """`files`, `bytes`, and where they are known: `architecture`, `parameters`, `dtype`, `shards`, `step`, `base`,
    `rank`, `alpha`, `stage`, `world_size`, `template` (the file that holds it)."""


def inspect(path: Path) -> Inspection:
    """What lies at a path (a folder, or one safetensors file). Raises `NotFound` where there is nothing."""
    folder = list_folder(path)
    kind = kind_of(folder)
    return Inspection(path, kind, facts_of(folder, kind))


def kind_of(folder: Folder) -> Kind:
    """What the folder would be if it were sound."""
    top = folder.top()
    if folder.loose:
        return _kind_of_file(folder)
    if ADAPTER in top or PICKLED_ADAPTER in top or (ADAPTER_CONFIG in top and not states.is_zero(folder)):
        return "lora-adapter"
    if SINGLE in top or INDEX in top or any(name in top for name in PICKLED_MODEL) or model_files(folder):
        return "full-model"
    if states.is_zero(folder):
        return "zero-checkpoint"
    if states.is_fsdp(folder):
        return "fsdp-checkpoint"
    return "full-model" if CONFIG in top else "unknown"


def source_kind(folder: Folder) -> Kind:
    """The same; but where no weights lie beside ZeRO states that can be read without a pickle, the states."""
    if not folder.loose and states.is_zero(folder) and ADAPTER not in folder.top() and not model_files(folder):
        return "zero-checkpoint"
    return kind_of(folder)


def _kind_of_file(folder: Folder) -> Kind:
    (name,) = folder.files
    if not name.endswith(".safetensors"):
        return "unknown"
    try:
        tensors = read_header(folder.path / name).tensors
    except (BrokenFile, OSError):
        tensors = {}
    if name.startswith("adapter_model") or any(".lora_" in key for key in tensors):
        return "lora-adapter"
    return "full-model"


def facts_of(folder: Folder, kind: Kind) -> dict[str, JsonValue]:
    """Facts for people; one that is not known is left out."""
    facts: dict[str, JsonValue] = {"files": len(folder.files), "bytes": sum(folder.files.values())}
    config = folder.json(CONFIG).value or {}
    names = config.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        facts["architecture"] = names[0]
    elif isinstance(config.get("model_type"), str):
        facts["architecture"] = config["model_type"]
    if kind == "lora-adapter":
        facts |= _adapter_facts(folder.json(ADAPTER_CONFIG).value or {})
    facts |= _tensor_facts(folder, kind)
    state = folder.json("trainer_state.json").value or {}
    if isinstance(state.get("global_step"), int):
        facts["step"] = state["global_step"]
    facts |= states.facts(folder)
    if TEMPLATE in folder.files:
        facts["template"] = TEMPLATE
    elif default_template((folder.json(TOKENIZER_CONFIG).value or {}).get("chat_template")):
        facts["template"] = TOKENIZER_CONFIG
    return {name: told for name, value in facts.items() if (told := _told(value)) is not None}


def _told(value: JsonValue) -> JsonValue:
    """A fact as it may be kept and shown: text of one line, a list of such, a finite number of sane size; else None."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_told(entry) for entry in value]
    return value if isinstance(value, (int, float)) and abs(value) < MOST else None  # neither NaN nor infinite


def _adapter_facts(config: dict[str, Any]) -> dict[str, JsonValue]:
    facts: dict[str, JsonValue] = {}
    if isinstance(config.get("base_model_name_or_path"), str):
        facts["base"] = config["base_model_name_or_path"]
    for name, key in (("rank", "r"), ("alpha", "lora_alpha")):
        if isinstance(config.get(key), (int, float)):
            facts[name] = config[key]
    targets = config.get("target_modules")
    if isinstance(targets, list) and all(isinstance(t, str) for t in targets):
        facts["targets"] = sorted(targets)
    elif isinstance(targets, str):
        facts["targets"] = [targets]
    return facts


def _tensor_facts(folder: Folder, kind: Kind) -> dict[str, JsonValue]:
    if folder.loose:
        names: tuple[str, ...] = tuple(folder.files) if kind != "unknown" else ()
    elif kind == "lora-adapter":
        names = (ADAPTER,) if ADAPTER in folder.files else ()
    else:
        names = model_files(folder) if kind == "full-model" else ()
    parameters, types = 0, set()
    for name in names:
        try:
            tensors = read_header(folder.path / name).tensors.values()
        except (BrokenFile, OSError):
            return {"shards": len(names)}  # a damaged file is judged by its own check; here its numbers are unknown
        parameters += sum(t.elements for t in tensors)
        types |= {t.dtype for t in tensors}
    if not names:
        return {}
    return {"shards": len(names), "parameters": parameters, "dtype": ", ".join(sorted(types))}
