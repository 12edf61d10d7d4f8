"""Under which names the tensors of a training are saved, so that transformers and peft load them.

An engine sees a model's own names: an adapter's hold the adapter's name (`lora_A.default.weight`), which peft leaves
out of its files. Source: peft 0.21, `utils/save_and_load.get_peft_model_state_dict`; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from zeroboard.checkpoints.consolidate_layout import Parameter, Plan
from zeroboard.checkpoints.targets import PREFIX
from zeroboard.contract.problems import Problem
from zeroboard.errors import Refused

_ADAPTER = re.compile(
    r"(?P<stem>.*\.(?:lora_[AB]|lora_embedding_[AB]|lora_magnitude_vector|trainable_tokens_delta))\.(?P<adapter>[^.]+)"
    r"(?P<rest>\.(?:weight|bias))?"
)
_SAVED = re.compile(r"(?P<stem>.*)\.modules_to_save\.(?P<adapter>[^.]+)(?P<rest>\..*)")


@dataclass(frozen=True, slots=True)
class Named:
    """The tensors to write."""

    tensors: dict[str, Parameter]
    """Name in the file → what it is made of."""
    adapter: bool


def name_tensors(plan: Plan, *, tied: bool | None) -> Named:
    """The tensors of a plan by the names of their files; a shared tensor is written once, under the name of its data.

    `tied`: whether the model's config says that its output layer shares the embedding; None: there is no config. Where
    it says no, what was shared is written under both names. Of a training with an adapter only what was trained is
    kept. Raises `Refused` where several adapters were trained.
    """
    by_name = {p.name: p for p in plan.parameters}
    adapter = any(_ADAPTER.fullmatch(p.name) for p in plan.parameters if p.trained)
    if not adapter:
        kept = {name.replace("_orig_mod.", ""): p for name, p in by_name.items()}
        return Named(kept | (_copies(plan.shared, by_name) if tied is False else {}), adapter=False)
    trained = {name: p for name, p in by_name.items() if p.trained}
    trained |= _copies(plan.shared, trained)
    names = {match["adapter"] for name in trained if (match := _ADAPTER.fullmatch(name))}
    if len(names) > 1:
        params = {"names": ", ".join(sorted(names))}
        says = "problem.checkpoint-unsupported.adapters"
        raise Refused([Problem(code="checkpoint-unsupported", says=says, params=params)])
    return Named({_peft_name(name): p for name, p in trained.items()}, adapter=True)


def _copies(shared: Mapping[str, str], known: Mapping[str, Parameter]) -> dict[str, Parameter]:
    return {name: known[holder] for name, holder in shared.items() if holder in known}


def _peft_name(name: str) -> str:
    name = name.replace("_orig_mod.", "")
    if match := _SAVED.fullmatch(name):
        name = match["stem"] + match["rest"]
    elif match := _ADAPTER.fullmatch(name):
        rest = match["rest"] or ""
        if match["stem"].endswith("lora_magnitude_vector"):
            rest = ""
        name = match["stem"] + rest
    return name if name.startswith(PREFIX) else PREFIX + name
