"""Files that run when they are opened: named, never opened. Check `unsafe-files`.

Covered: pickles by their suffix, Python modules, and `auto_map` of the configs, which makes transformers import one.
Not covered: a pickle under another suffix (nothing here opens it either).
"""

from __future__ import annotations

import re

from zeroboard.checkpoints.findings import Findings
from zeroboard.checkpoints.folder import Folder

_PICKLE = re.compile(r".*\.(bin|pt|pth|pkl|pickle|ckpt|p)|(.*/)?\.metadata", re.IGNORECASE | re.DOTALL)

_OWN = re.compile(
    r"(.*/)?(training_args\.bin|(optimizer|scheduler|scaler)\.(pt|bin)|rng_state(_\d+)?\.pth"
    r"|random_states_\d+\.pkl|\.metadata"
    r"|(bf16_|fp16_)?(zero_pp_rank_\d+_)?mp_rank_\d+(_\d+)?_(model|optim)_states\.pt)",
    re.DOTALL,
)
"""What the Trainer and DeepSpeed write themselves while training. Nothing needs to open them to use the result."""

_OWN_MODULES = ("zero_to_fp32.py", "zero_to_torch.py")
"""DeepSpeed lays its conversion scripts beside its states; ZeroBoard never runs them."""


def judge_unsafe(folder: Folder, findings: Findings) -> None:
    """Names every file that could run code, and says which of them a training writes itself."""
    for name in folder.files:
        if _PICKLE.fullmatch(name):
            if _OWN.fullmatch(name):
                findings.note("unsafe-files", "own", name)
            else:
                findings.warn("unsafe-files", "pickle", name)
        elif name.endswith(".py") and name.rsplit("/", 1)[-1] not in _OWN_MODULES:
            findings.warn("unsafe-files", "module", name)
    for config in ("config.json", "tokenizer_config.json"):
        for module in _modules(folder.json(config).value):
            findings.warn("unsafe-files", "auto-map", module, config=config)
    findings.settle("unsafe-files")


def _modules(config: dict[str, object] | None) -> list[str]:
    """The modules that a config asks transformers to import."""
    entries = (config or {}).get("auto_map")
    if not isinstance(entries, dict):
        return []
    names: set[str] = set()
    for entry in entries.values():
        for name in entry if isinstance(entry, list) else [entry]:
            if isinstance(name, str):
                names.add(name.rpartition(".")[0] or name)
    return sorted(names)
