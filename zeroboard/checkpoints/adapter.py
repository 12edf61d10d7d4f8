"""Checks of a LoRA adapter: `complete config keys shapes trained dtype base`.

Which tensors belong there follows from the adapter's config and the base's headers, by peft's own rules (0.21,
`tuners_utils.check_target_module_exists`, `utils/other.get_pattern_key`): targets as names or one pattern, excluded
modules, `layers_to_transform`, `rank_pattern`, DoRA, biases, `modules_to_save`, embeddings. Covered without a base:
pairs, ranks, gaps between the layers. Not covered: other kinds of adapters than LoRA, and LoRA on bare parameters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from zeroboard.checkpoints.base import Base
from zeroboard.checkpoints.findings import Findings
from zeroboard.checkpoints.folder import Folder
from zeroboard.checkpoints.model import EMBEDDINGS, OUTPUT, judge_empty
from zeroboard.checkpoints.targets import PREFIX, Targets, impossible, read_targets, stored_transposed
from zeroboard.checkpoints.weights import ADAPTER, PICKLED_ADAPTER, Weights, judge_dtype
from zeroboard.headers import Tensor

CONFIG = "adapter_config.json"

PART = re.compile(
    r"(?P<module>.+?)\.(?P<part>lora_[AB]\.(weight|bias)|lora_embedding_[AB]|lora_magnitude_vector(\.weight)?)"
)
ENDS = frozenset(name.removesuffix(".weight") for name in (*EMBEDDINGS, OUTPUT))
"""The modules that a tied model has in common."""

_LAYER = re.compile(r"\.(layers|h|blocks|block|layer)\.(\d+)\.")

_OUT = "lora_B.weight"
_IN = "lora_A.weight"
_ZERO_AT_START = (_OUT, "lora_embedding_A")
"""What peft fills with zeros: an adapter that was trained has changed them."""


def judge_adapter(folder: Folder, weights: Weights, base: Base | None, findings: Findings) -> None:
    """All of them but the values; `base` is None where none can be read."""
    _judge_complete(folder, weights, findings)
    config = _judge_config(folder, findings)
    if not weights.tensors:
        return
    judge_empty(weights, findings)
    judge_dtype(weights, None, findings)
    if config is None:
        findings.skip("keys", "no-adapter-config")
        return
    targets = read_targets(config)
    modules = _modules(weights.tensors)
    if not targets.told:
        findings.skip("keys", "not-told")
    elif base is not None and base.modules:
        _judge_against_base(weights, modules, targets, base, findings)
    else:
        _judge_alone(modules, targets, findings)
    _judge_pairs(modules, targets, findings)
    findings.settle("keys", "shapes", tensors=len(weights.tensors))


def judge_trained(weights: Weights, zero: Collection[str], findings: Findings) -> None:
    """Check `trained`: what starts as zero is zero no more. `zero`: names of the tensors that are 0 everywhere."""
    starting = [n for n, t in weights.tensors.items() if n.endswith(_ZERO_AT_START) and t.elements]
    still = [name for name in starting if name in zero]
    if starting and len(still) == len(starting):
        findings.fail("trained", "all-zero", total=len(starting))
    else:
        for name in still:
            findings.warn("trained", "some-zero", name, total=len(starting))
        for name in zero:
            if name.endswith((_IN, "lora_embedding_B")):
                findings.fail("trained", "dead", name)
    if starting:
        findings.settle("trained", total=len(starting))
    else:
        findings.skip("trained", "nothing")


def starts_zero(name: str) -> bool:
    """Whether the check `trained` looks at this tensor, so that being constant is its business."""
    return name.endswith((*_ZERO_AT_START, _IN, "lora_embedding_B"))


def _judge_complete(folder: Folder, weights: Weights, findings: Findings) -> None:
    if folder.path.name.startswith("tmp-"):
        findings.warn("complete", "unfinished", folder.path.name)
    if weights.headers and not weights.tensors:
        findings.fail("complete", "no-tensor", ADAPTER, size=weights.headers[0].size)
    elif not weights.headers and not weights.broken:
        if PICKLED_ADAPTER in folder.files:
            findings.warn("complete", "only-pickle", PICKLED_ADAPTER)
        else:
            findings.fail("complete", "no-adapter", ADAPTER)
    findings.settle("complete")


def _judge_config(folder: Folder, findings: Findings) -> dict[str, Any] | None:
    config = folder.json(CONFIG)
    if config.value is None:
        if config.fault:
            findings.fail("config", "unreadable", CONFIG, why=config.fault)
        else:
            findings.fail("config", "missing", CONFIG)
        return None
    kind = config.value.get("peft_type")
    if kind not in ("LORA", None):
        findings.warn("config", "other-adapter", CONFIG, type=str(kind)[:80])
        return None
    if not isinstance(config.value.get("r"), int) or config.value["r"] < 1:
        findings.fail("config", "bad-size", "r", value=_shown(config.value.get("r")))
        return None
    for field in impossible(config.value):
        findings.warn("config", "bad-size", field, value=_shown(config.value[field]))
    findings.settle("config", type="LoRA")
    return config.value


def _shown(value: object) -> str:
    """A value of the file as it stands there, cut."""
    return json.dumps(value, ensure_ascii=False, default=str)[:80]


def _modules(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Module (with peft's prefix) → its parts (`lora_A.weight` …)."""
    modules: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if match := PART.fullmatch(name):
            modules.setdefault(match["module"], {})[match["part"]] = tensor
    return modules


def _judge_pairs(modules: dict[str, dict[str, Tensor]], targets: Targets, findings: Findings) -> None:
    """A and B belong together and have the rank that the config gives their module."""
    for module, parts in modules.items():
        for one, other in ((_IN, _OUT), ("lora_embedding_A", "lora_embedding_B")):
            if (one in parts) != (other in parts):
                findings.fail("keys", "half-pair", f"{module}.{other if one in parts else one}")
        if not targets.told:
            continue
        rank = targets.rank(module.removeprefix(PREFIX))
        for part, axis in ((_IN, 0), (_OUT, 1), ("lora_embedding_A", 0), ("lora_embedding_B", 1)):
            tensor = parts.get(part)
            if tensor is None or not tensor.elements:
                continue
            if len(tensor.shape) <= axis or tensor.shape[axis] != rank:
                findings.fail("shapes", "rank", f"{module}.{part}", shape=str(list(tensor.shape)), rank=rank)


def _judge_against_base(
    weights: Weights, modules: dict[str, dict[str, Tensor]], targets: Targets, base: Base, findings: Findings
) -> None:
    wanted = {name for name in base.modules if targets.match(name)}
    if targets.held and wanted & ENDS:
        wanted |= ENDS & base.modules.keys()
    if not wanted:
        findings.fail("keys", "no-target", ", ".join(targets.named), base=base.name)
    add = findings.fail if base.layout_known else findings.warn
    for name in sorted(wanted, key=_in_order):
        if PREFIX + name not in modules:
            add("keys", "module-missing", PREFIX + name, targets=len(wanted))
    for module, parts in modules.items():
        name = module.removeprefix(PREFIX)
        shape = base.modules.get(name)
        if not module.startswith(PREFIX) or name not in wanted or shape is None:
            for part in parts:
                add("keys", "not-in-base", f"{module}.{part}", base=base.name)
            continue
        turned = stored_transposed(name, base.model_type, targets.transposed)
        _judge_fit(module, parts, shape[::-1] if turned else shape, base, findings)
    for name in weights.tensors:
        if not PART.fullmatch(name) and not targets.explains(name, base.names):
            add("keys", "unknown", name)


def _judge_fit(module: str, parts: dict[str, Tensor], shape: tuple[int, int], base: Base, findings: Findings) -> None:
    """The outer sizes of a pair are those of the base's matrix (rows out, columns in)."""
    out, into = shape
    for part, axis, size in (
        (_IN, 1, into),
        (_OUT, 0, out),
        ("lora_embedding_A", 1, out),
        ("lora_embedding_B", 0, into),
        ("lora_magnitude_vector", -1, out if _OUT in parts else into),
    ):
        tensor = parts.get(part)
        if tensor is None or not tensor.elements:
            continue
        if tensor.shape[axis:][:1] != (size,):  # one of fewer dimensions has no such axis
            findings.fail(
                "base", "does-not-fit", f"{module}.{part}", shape=str(list(tensor.shape)), base=str(list(shape))
            )


def _judge_alone(modules: dict[str, dict[str, Tensor]], targets: Targets, findings: Findings) -> None:
    """Without a base: peft's prefix, the targets, and the same modules in every layer."""
    for module in modules:
        if not module.startswith(PREFIX):
            findings.fail("keys", "no-prefix", module, prefix=PREFIX)
        elif not targets.match(module.removeprefix(PREFIX)):
            findings.warn("keys", "not-a-target", module)
    layers: dict[str, set[int]] = {}
    for module in modules:
        if match := _LAYER.search(module):
            pattern = f"{module[: match.start(2)]}*{module[match.end(2) :]}"
            layers.setdefault(pattern, set()).add(int(match[2]))
    seen = set().union(*layers.values())
    for pattern, present in layers.items():
        for layer in sorted(seen - present):
            findings.warn("keys", "gap", pattern.replace("*", str(layer)))


def _in_order(name: str) -> list[tuple[int, str]]:
    """Layer 2 before layer 10."""
    return [(int(word), "") if word.isdigit() else (0, word) for word in name.split(".")]
