"""Which modules of a base an adapter's config aims at, and with which rank: peft's rules without peft.

The patterns come from a foreign file and are matched with `re`, as peft does. One that is no pattern matches nothing,
and one that could keep `re` busy for hours is not tried: the targets then count as not told.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

PREFIX = "base_model.model."
"""What peft puts before every name."""

Number = TypeVar("Number", int, float)

PATTERN_LIMIT = 2000
"""Characters of the longest pattern that is tried."""

MOST_REPEATS = 4
"""Repetitions in a pattern that is tried. Each one multiplies the work by the length of a name (some 60 characters)."""

_REPEAT = re.compile(r"[*+]|\{\d*,\d*\}")
_REPEATED_GROUP = re.compile(r"\)([*+]|\{)")

_FIRST_NUMBER = re.compile(r".*?\.[^.]*\.(\d+)\.")
_ALL_LINEAR = "all-linear"
_MODULE = re.compile(r"[\w.]+")
"""What the name of a module, or the end of one, is made of."""
EMBEDDING = ("embed_tokens", "wte", "embed_in", "word_embeddings")
OUTPUT = ("lm_head", "embed_out")
"""Modules at the two ends of a model, by the last part of their names."""
_CONV1D = ("gpt2", "openai-gpt", "imagegpt", "decision_transformer", "clvp")
"""Model types whose matrices are stored (in, out): transformers' `Conv1D`. Their output layer is not one of them."""


def stored_transposed(module: str, model_type: object, told: bool) -> bool:
    """Whether a base stores the module's matrix as (in, out).

    `told`: the adapter's `fan_in_fan_out`, which peft sets anew for each kind of layer that it meets, so that the file
    keeps the last one's; it is heard where the type of the model does not say.
    """
    last = module.rsplit(".", 1)[-1]
    if last in EMBEDDING or (model_type in _CONV1D and last in OUTPUT):
        return False
    return told or model_type in _CONV1D


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The config of an adapter, as far as names and ranks follow from it."""

    modules: tuple[str, ...] | str
    """Names or endings of names; a text is one pattern."""
    excluded: tuple[str, ...] | str
    saved: tuple[str, ...]
    """`modules_to_save`: trained and saved whole."""
    layers: frozenset[int] | None
    layer_names: tuple[str, ...]
    default_rank: int
    ranks: Mapping[str, int]
    default_alpha: float
    alphas: Mapping[str, float]
    root_scaled: bool
    """Scaled by the root of the rank: `use_rslora`."""
    bias: bool
    transposed: bool
    """The base's matrices are stored (in, out): `fan_in_fan_out`."""
    held: bool
    """A pair of a tied model's embedding is the output layer's too: `ensure_weight_tying`."""
    told: bool
    """False: which names belong in the file does not follow from this config (bare parameters, intricate patterns)."""

    @property
    def named(self) -> tuple[str, ...]:
        return (self.modules,) if isinstance(self.modules, str) else self.modules

    def match(self, module: str) -> bool:
        """Whether the module gets a pair of matrices."""
        if _matches(self.excluded, module) or any(_search(rf"(^|.*\.){name}($|\..*)", module) for name in self.saved):
            return False
        if self.modules == _ALL_LINEAR:
            found = module.rsplit(".", 1)[-1] not in (*EMBEDDING, *OUTPUT)
        else:
            found = _matches(self.modules, module)
        if not found or self.layers is None or isinstance(self.modules, str):
            return found
        index = self._layer(module)
        return index is not None and index in self.layers

    def rank(self, module: str) -> int:
        """The rank of a module's pair."""
        return _of_pattern(self.ranks, module, self.default_rank)

    def scale(self, module: str) -> float:
        """What the product of a module's pair is multiplied by."""
        rank = self.rank(module)
        return _of_pattern(self.alphas, module, self.default_alpha) / (math.sqrt(rank) if self.root_scaled else rank)

    def explains(self, name: str, base: Collection[str]) -> bool:
        """Whether a tensor that is no part of a pair belongs into the file: a saved module, an embedding, a bias."""
        plain = name.removeprefix(PREFIX)
        if plain == name:
            return False
        if any(_search(rf".*{module}\..*", plain) for module in self.saved):  # the end of a name is enough for peft
            return True
        if ".token_adapter." in plain or plain.endswith("trainable_tokens_delta"):
            return True
        plain = plain.replace(".base_layer.", ".")
        module = plain.rpartition(".")[0].rsplit(".", 1)[-1]
        if module in (*EMBEDDING, *OUTPUT):  # peft adds them by itself when the vocabulary was resized
            return True
        return (
            self.bias and plain.endswith(".bias") and (plain in base or plain.removesuffix("bias") + "weight" in base)
        )

    def _layer(self, module: str) -> int | None:
        if not self.layer_names:
            match = _FIRST_NUMBER.match(module)
            return int(match[1]) if match else None
        for name in self.layer_names:
            if match := _search(rf"(?:^|.*?\.){name}\.(\d+)\.", module):
                return int(match[1])
        return None


def read_targets(config: Mapping[str, Any]) -> Targets:
    """The targets in an `adapter_config.json` whose `r` is a number; values of a wrong type count as absent."""
    layers = config.get("layers_to_transform")
    if isinstance(layers, int):
        layers = [layers]
    ranks: dict[str, int] = _patterns(config.get("rank_pattern"), int)
    alphas: dict[str, float] = _patterns(config.get("alpha_pattern"), int | float)
    alpha = config.get("lora_alpha")
    modules, excluded = _names(config.get("target_modules")), _names(config.get("exclude_modules"))
    saved, layer_names = _listed(config.get("modules_to_save")), _listed(config.get("layers_pattern"))
    foreign = [*ranks, *alphas, *saved, *layer_names, *(p for p in (modules, excluded) if isinstance(p, str))]
    tame = all(map(_tame, foreign))
    return Targets(
        modules=modules if tame else (),
        excluded=excluded if tame else (),
        saved=saved if tame else (),
        layers=frozenset(n for n in layers if isinstance(n, int)) if isinstance(layers, list) and layers else None,
        layer_names=layer_names if tame else (),
        default_rank=config["r"],
        ranks=ranks if tame else {},
        default_alpha=alpha if isinstance(alpha, int | float) else 8,
        alphas=alphas if tame else {},
        root_scaled=bool(config.get("use_rslora")),
        bias=config.get("bias", "none") != "none" or bool(config.get("lora_bias")),
        transposed=bool(config.get("fan_in_fan_out")),
        held=bool(config.get("ensure_weight_tying")),
        told=tame and not config.get("target_parameters"),
    )


def impossible(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields whose values no peft could have written; `read_targets` counts them as absent, so they are told."""
    found = []
    for field in ("rank_pattern", "alpha_pattern"):
        value = config.get(field) or {}
        whole = isinstance(value, dict) and all(isinstance(n, int | float) and _compiles(k) for k, n in value.items())
        found += [] if whole else [field]
    layers = config.get("layers_to_transform")
    if not (layers is None or isinstance(layers, int) or _all(layers, int)):
        found.append("layers_to_transform")
    saved = config.get("modules_to_save")
    if not (saved is None or (_all(saved, str) and all(_MODULE.fullmatch(name) for name in saved))):
        found.append("modules_to_save")
    return tuple(found)


def _all(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(entry, kind) for entry in value)


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, RecursionError):
        return False
    return True


def _tame(pattern: str) -> bool:
    """Whether matching it ends soon whatever the text: short, few repetitions, none of a whole group."""
    few = len(_REPEAT.findall(pattern)) <= MOST_REPEATS
    return len(pattern) <= PATTERN_LIMIT and few and not _REPEATED_GROUP.search(pattern)


def _names(value: object) -> tuple[str, ...] | str:
    return value if isinstance(value, str) else _listed(value)


def _patterns(value: object, kind: Any) -> dict[str, Any]:
    return {k: v for k, v in value.items() if isinstance(v, kind)} if isinstance(value, dict) else {}


def _of_pattern(patterns: Mapping[str, Number], module: str, default: Number) -> Number:
    """The value of the first pattern that fits the end of the module's name."""
    for pattern, value in patterns.items():
        if _search(rf"(.*\.)?({pattern})$", module):
            return value
    return default


def _listed(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(n for n in value if isinstance(n, str)) if isinstance(value, list) else ()


def _matches(names: tuple[str, ...] | str, module: str) -> bool:
    if isinstance(names, str):
        return bool(names) and _search(f"(?:{names})$", module) is not None
    return any(module == name or module.endswith(f".{name}") for name in names)


def _search(pattern: str, text: str) -> re.Match[str] | None:
    """`re.match` that takes a broken pattern for one that matches nothing."""
    try:
        return re.match(pattern, text)
    except re.error:
        return None
