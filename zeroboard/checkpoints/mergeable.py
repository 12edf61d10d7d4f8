"""What stands in the way of a merge, all of it at once: the settings of the adapter, its files, and the base.

Covered: other adapters than LoRA and variants of LoRA that are no sum of matrices; initialisations that changed the
base; quantised bases, GGUF and pickled ones; whatever `adapter.judge_adapter` finds. Not covered: whether the base is
the one that the adapter was trained on, which only the comparison after the merge shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zeroboard.checkpoints.adapter import CONFIG, judge_adapter
from zeroboard.checkpoints.base import Base, find_base, judge_base
from zeroboard.checkpoints.findings import Findings, printable
from zeroboard.checkpoints.folder import Folder, list_folder
from zeroboard.checkpoints.model import CONFIG as MODEL_CONFIG
from zeroboard.checkpoints.weights import ADAPTER, PICKLED_MODEL, Weights, model_files, read_files
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.errors import NotFound, Refused

INITS = (True, False, None, "true", "gaussian", "orthogonal", "eva")
"""Values of `init_lora_weights` that leave the base's weights as they are. Of the others (`pissa`, `olora`, `corda`,
`loftq`, `lora_ga`) the adapter fits only the base that the initialisation changed."""

VARIANTS = (
    "use_qalora", "use_bdlora", "arrow_config", "kasa_config", "velora_config", "monteclora_config",
    "alora_invocation_tokens", "layer_replication", "target_parameters", "megatron_config",
)  # fmt: skip
"""Fields of a config that make of LoRA something else than matrices to be added."""


@dataclass(frozen=True, slots=True)
class Mergeable:
    """An adapter and its base, judged sound as far as their headers tell."""

    adapter: Folder
    weights: Weights
    """Of the adapter."""
    config: dict[str, Any]
    """`adapter_config.json`."""
    base: Base
    base_config: dict[str, Any]


def judge_mergeable(path: Path, given: Path | None) -> Mergeable:
    """The adapter at `path` and its base: `given`, else the one that the adapter names.

    Raises `NotFound` where there is nothing at `path`, and `Refused` with everything that stands in the way.
    """
    folder = list_folder(path)
    config = folder.json(CONFIG).value or {}
    findings = Findings()
    weights = read_files(folder, [ADAPTER] if ADAPTER in folder.files else [], findings)
    problems = _judge_settings(config)
    if config and not problems and not weights.headers and not findings.faulty("header"):
        problems.append(refusal("merge.no-safetensors", path=str(path)))
    base, more = _base_of(config, given)
    problems += more
    if not problems:
        judge_adapter(folder, weights, base, findings)
    problems += failed(findings)
    if problems or base is None:
        raise Refused(problems)
    return Mergeable(folder, weights, config, base, base.folder.json(MODEL_CONFIG).value or {})


def refusal(says: str, code: str = "model-unsupported", **params: Scalar) -> Problem:
    """A reason not to merge; names from foreign files are made printable."""
    shown = {key: printable(value) if isinstance(value, str) else value for key, value in params.items()}
    return Problem(code=code, says=says, params=shown)


def failed(findings: Findings) -> list[Problem]:
    """The checks that failed, as problems."""
    return [
        Problem(code="model-unsupported", says=check.says, params=check.params)
        for check in findings.checks()
        if check.verdict == "fail"
    ]


def _judge_settings(config: dict[str, Any]) -> list[Problem]:
    """Nothing to say of a config that is not there: `judge_adapter` says that."""
    kind = config.get("peft_type", "LORA")
    if kind != "LORA":
        return [refusal("merge.other-adapter", type=str(kind)[:80])]
    problems = []
    init = config.get("init_lora_weights", True)
    if (init.lower() if isinstance(init, str) else init) not in INITS:
        problems.append(refusal("merge.init", init=str(init)[:80]))
    variants = [name for name in VARIANTS if config.get(name)]
    if variants:
        problems.append(refusal("merge.variant", names=", ".join(variants)))
    return problems


def _base_of(config: dict[str, Any], given: Path | None) -> tuple[Base | None, list[Problem]]:
    named = config.get("base_model_name_or_path")
    named = named if isinstance(named, str) else None
    path = find_base(named, given)
    if path is None:
        return None, [refusal("load.base-gone", "model-missing", base=named or "?")]
    try:
        folder = list_folder(path)
    except NotFound:
        return None, [refusal("load.base-gone", "model-missing", base=str(path))]
    problems = _judge_base_files(folder)
    if problems:
        return None, problems
    findings = Findings()
    base = judge_base(named, path, findings)
    return base, failed(findings)


def _judge_base_files(folder: Folder) -> list[Problem]:
    """Weights that no merge can go into."""
    base = str(folder.path)
    config = folder.json(MODEL_CONFIG).value or {}
    inner = config.get("text_config")
    method = config.get("quantization_config")
    if not method and isinstance(inner, dict):
        method = inner.get("quantization_config")
    if method:
        name = method.get("quant_method") if isinstance(method, dict) else method
        return [refusal("merge.quantised", base=base, method=str(name)[:80])]
    if not model_files(folder):
        if any(name.lower().endswith(".gguf") for name in folder.files):
            return [refusal("merge.quantised", base=base, method="GGUF")]
        if any(name in folder.files for name in PICKLED_MODEL):
            return [refusal("load.no-safetensors", path=base)]
    return []
