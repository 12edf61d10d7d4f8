"""The verb `schema`: which keys the installed DeepSpeed reads, asked of DeepSpeed itself.

Its blocks with a model (pydantic) tell names, types, bounds and what is deprecated. The rest has none: DeepSpeed's
reader is given a file that writes down what it is asked for, so what is read is found by having it read. A block that
has a model shows itself by refusing a key that cannot exist, and a key that was removed by refusing to be there.

Covered: `DeepSpeedConfig` of DeepSpeed 0.19. Not covered: keys that only further parts of DeepSpeed (pipelines,
autotuning, inference) read from the same file.
"""

from __future__ import annotations

import enum
import importlib.metadata
import inspect
import logging
import os
import types
import typing
from collections.abc import Iterator
from typing import Any

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from zeroboard.contract.requests import Answer
from zeroboard.contract.schema import KeyKind, Schema, SchemaKey
from zeroboard.engine.channel import Channel

# before DeepSpeed is imported: no GPU has to be asked to know which keys there are
os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.runtime import config as reader
from deepspeed.runtime import lr_schedules
from deepspeed.runtime.zero.utils import ZERO_SUPPORTED_OPTIMIZERS

log = logging.getLogger(__name__)

BLOCKS = (
    "optimizer", "scheduler", "aio", "activation_checkpointing", "data_types", "torch_autocast", "checkpoint",
    "flops_profiler", "data_efficiency", "timers", "autotuning",
)  # fmt: skip
"""Blocks without a model, put into the file so that what is read inside them is seen."""
NO_KEY = "zeroboard-no-such-key"
NUMBERS: dict[str, KeyKind] = {
    "train_batch_size": "integer",
    "train_micro_batch_size_per_gpu": "integer",
    "gradient_accumulation_steps": "integer",
    "steps_per_print": "integer",
    "activation_checkpointing.number_checkpoints": "integer",
    "gradient_clipping": "number",
}
"""Keys without a default, or (clipping) whose default would not tell that a whole number will do."""
TEXTS = ("optimizer.type", "scheduler.type")
PARAMS = ("optimizer.params", "scheduler.params")
ELSEWHERE = ("sequence_parallel_size", "data_parallel_size")
"""Keys that `deepspeed.initialize` reads before the reader does."""
HOST = {"adam", "adamw", "adagrad", "lion"}
"""Of `DeepSpeedEngine._configure_basic_optimizer`: those with a class for the CPU."""


def main(channel: Channel) -> int:
    """Answer with the `Schema`."""
    channel.receive()
    channel.send(Answer(value=schema().model_dump(mode="json")))
    return 0


def schema() -> Schema:
    """Ask DeepSpeed."""
    asked = _asked()
    keys: dict[str, SchemaKey] = {}
    removed: dict[str, str] = {}
    for path, default in asked.items():
        if "." in path:
            keys.setdefault(path, _by_default(path, default))
            continue
        found = _try(path)
        if isinstance(found, str):
            removed[path] = found
        elif found is not None:
            keys[path] = SchemaKey(kind="object", strict=True, optional=False)
            keys.update(_model(found, f"{path}."))
        else:
            keys[path] = _by_default(path, default, asked)
    for key in PARAMS:
        keys[key] = SchemaKey(kind="object", open=True)
    for key in ELSEWHERE:
        keys.setdefault(key, SchemaKey(kind="integer"))
    keys["bfloat16"] = SchemaKey(kind="object", open=True, deprecated=True, replaced_by="bf16")
    gone = getattr(reader, "_REMOVED_ZERO_CONFIG_KEYS", {})
    removed.update({f"zero_optimization.{key}": why for key, why in gone.items()})
    return Schema(
        version=importlib.metadata.version("deepspeed"),
        keys=dict(sorted(keys.items())),
        removed=removed,
        optimizers=tuple(sorted(reader.DEEPSPEED_OPTIMIZERS)),
        torch_optimizers=tuple(sorted(_torch_optimizers())),
        host_optimizers=tuple(sorted(HOST & set(reader.DEEPSPEED_OPTIMIZERS))),
        tested_optimizers=_tested(),
        optimizer_params={name: _adam_parameters() for name in ("adam", "adamw")},
        schedulers={name: tuple(_parameters(name)) for name in lr_schedules.VALID_LR_SCHEDULES},
        scheduler_needs={
            name: tuple(n for n, p in _parameters(name).items() if p.default is inspect.Parameter.empty)
            for name in lr_schedules.VALID_LR_SCHEDULES
        },
    )


class _Watched(dict[str, Any]):
    """A mapping that writes down what it is asked for, with the default that the asker would take."""

    def __init__(self, log: dict[str, Any], prefix: str = "", value: dict[str, Any] | None = None) -> None:
        super().__init__(value or {})
        self.log = log
        self.prefix = prefix

    def _note(self, key: object, default: Any = None) -> None:
        if isinstance(key, str) and self.log.get(self.prefix + key) is None:
            self.log[self.prefix + key] = default

    def get(self, key: Any, default: Any = None) -> Any:
        self._note(key, default)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def keys(self) -> Any:  # `"x" in file.keys()` is asked as well
        return self

    def __copy__(self) -> _Watched:
        return self


def _asked() -> dict[str, Any]:
    """Dotted key → the default of whoever asked for it; None where none was given."""
    log_of: dict[str, Any] = {}
    file = _Watched(log_of, "", {"train_batch_size": 1})
    for block in BLOCKS:
        dict.__setitem__(file, block, _Watched(log_of, f"{block}."))
    reader.DeepSpeedConfig(file)
    log_of.pop("bfloat16", None)  # the old name of bf16, which is told as one below
    return log_of


def _try(key: str) -> type[BaseModel] | str | None:
    """The model of a block; DeepSpeed's words where the key was removed; None where there is neither."""
    try:
        reader.DeepSpeedConfig({"train_batch_size": 1, key: {NO_KEY: 1}})
    except ValidationError as error:
        return _named(error.title, [str(part) for part in error.errors()[0]["loc"][:-1]])
    except reader.DeepSpeedConfigError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  (whatever a reader makes of a block that it cannot take; it has no model)
        log.info("%s has no model: %s", key, error)
    return None


def _named(title: str, inside: list[str]) -> type[BaseModel] | None:
    """The model of that name, or the one in its fields that refused."""
    found = next((model for model in _all(reader.DeepSpeedConfigModel) if model.__name__ == title), None)
    for name in inside:
        kind = _strip(found.model_fields[name].annotation)[0] if found is not None else None
        found = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    return found


def _all(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for below in model.__subclasses__():
        yield below
        yield from _all(below)


def _model(model: type[BaseModel], prefix: str) -> dict[str, SchemaKey]:
    """The keys of a model, by dotted path; under its alias and under its own name, as DeepSpeed takes both."""
    found: dict[str, SchemaKey] = {}
    for name, info in model.model_fields.items():
        facts, inner = _field(info)
        for called in {name, info.alias or name}:
            found[prefix + called] = facts
            if inner is not None:
                found.update(_model(inner, f"{prefix}{called}."))
    return found


def _field(info: FieldInfo) -> tuple[SchemaKey, type[BaseModel] | None]:
    kind, optional = _strip(info.annotation)
    inner = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    bounds: dict[str, float] = {}
    for rule in info.metadata:
        for cls, name in ((Ge, "ge"), (Gt, "gt"), (Le, "le"), (Lt, "lt")):
            if isinstance(rule, cls):
                bounds[name] = float(getattr(rule, name))
    choices: tuple[str, ...] = ()
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        choices = tuple(dict.fromkeys(str(member.value) for member in kind))
    elif typing.get_origin(kind) is typing.Literal:
        choices = tuple(str(arm) for arm in typing.get_args(kind))
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    new = extra.get("new_param")
    return (
        SchemaKey(
            kind=_kind(kind),
            optional=optional,
            strict=inner is not None,
            open=inner is None and _kind(kind) == "object",
            choices=choices,
            auto=info.default == "auto",
            deprecated=bool(extra.get("deprecated")),
            replaced_by=str(new) if new else None,
            **bounds,
        ),
        inner,
    )


def _strip(annotation: Any) -> tuple[Any, bool]:
    """The type without None, and whether None was there. Of several types none is chosen."""
    arms = typing.get_args(annotation)
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    rest = [arm for arm in arms if arm is not type(None)]
    return (rest[0] if len(rest) == 1 else Any), len(rest) < len(arms)


def _kind(kind: Any) -> KeyKind:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "object"
    origin = typing.get_origin(kind) or kind
    if not isinstance(origin, type):
        return "text" if origin is typing.Literal and all(isinstance(a, str) for a in typing.get_args(kind)) else "any"
    simple: tuple[tuple[type, KeyKind], ...] = (
        (bool, "switch"), (int, "integer"), (float, "number"), (str, "text"), (os.PathLike, "text"),
        (list, "list"), (tuple, "list"), (dict, "object"),
    )  # fmt: skip
    return next((name for cls, name in simple if issubclass(origin, cls)), "any")


def _by_default(path: str, default: Any, asked: dict[str, Any] | None = None) -> SchemaKey:
    """What the default tells of a key that has no model."""
    inside = [key for key in asked or {} if key.startswith(f"{path}.")]
    if inside:
        return SchemaKey(kind="object")
    if path in NUMBERS:
        return SchemaKey(kind=NUMBERS[path], optional=default is None)
    if path in TEXTS:
        return SchemaKey(kind="text")
    if isinstance(default, dict):
        return SchemaKey(kind="object", open=True)
    if default is None or default == "auto":
        return SchemaKey(kind="any", open=True, auto=default == "auto")
    return SchemaKey(kind=_kind(type(default)))


def _torch_optimizers() -> Iterator[str]:
    for name, found in vars(torch.optim).items():
        if isinstance(found, type) and issubclass(found, torch.optim.Optimizer) and found is not torch.optim.Optimizer:
            yield name


def _tested() -> tuple[str, ...]:
    """`FusedAdam`, `DeepSpeedCPUAdagrad` … in the words of a file."""
    names = {cls.__name__.lower() for cls in ZERO_SUPPORTED_OPTIMIZERS}
    bare = {name.removeprefix("deepspeed").removeprefix("cpu").removeprefix("fused") for name in names}
    return tuple(sorted({*bare, "muon"} & {*reader.DEEPSPEED_OPTIMIZERS}))


def _adam_parameters() -> tuple[str, ...]:
    """What the classes behind Adam and AdamW take, and what `get_optimizer_configuration` takes out before."""
    taken = ["torch_adam", "adam_w_mode", "fp32_optimizer_states", "foreach"]
    for cls in (FusedAdam, DeepSpeedCPUAdam):
        taken += [n for n in inspect.signature(cls).parameters if n not in ("params", "model_params", "adamw_mode")]
    return tuple(sorted(set(taken)))


def _parameters(scheduler: str) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(getattr(lr_schedules, scheduler)).parameters)
    return {name: p for name, p in found.items() if name not in ("optimizer", "last_batch_iteration")}
