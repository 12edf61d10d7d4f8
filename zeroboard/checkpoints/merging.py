"""The plan of a merge: every tensor of the result, where its bytes begin, and what is added to it. Without torch.

What peft 0.21 does in memory (`tuners/lora/layer.py`, `lora/variants.py`, `trainable_tokens/layer.py`,
`utils/save_and_load.py`), told in advance for each tensor, so that it can be done one after the other. Covered: LoRA,
rsLoRA, DoRA, patterns of ranks and alphas, `Conv1D`, biases, `modules_to_save`, embeddings, single tokens, resized
vocabularies, tied weights. In one case peft's merge is not followed: where the training has made the two ends of a
tied model differ, peft adds each change to both; here they are untied, as the adapter on its base computes.
Not covered: LoRA on convolutions; names on disk that differ from those of the modules by more than their first part.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zeroboard.checkpoints.adapter import PART
from zeroboard.checkpoints.mergeable import Mergeable, judge_mergeable, refusal
from zeroboard.checkpoints.model import OUTPUT, input_embedding, is_tied
from zeroboard.checkpoints.targets import PREFIX, Targets, read_targets, stored_transposed
from zeroboard.checkpoints.weights import Weights
from zeroboard.checkpoints.writer import Entry
from zeroboard.contract.plan import Dtype
from zeroboard.contract.problems import Problem
from zeroboard.errors import Refused
from zeroboard.headers import ELEMENT_BYTES, Header, Tensor

DTYPES: dict[Dtype, str] = {"bf16": "BF16", "fp16": "F16", "fp32": "F32"}
FLOATS = frozenset(("F64", "F32", "F16", "BF16"))
NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""As a `config.json` names them."""

_TOKENS = ("token_adapter.trainable_tokens_delta", "trainable_tokens_delta")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor's bytes lie."""

    path: Path
    tensor: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two matrices whose product, scaled, is added."""

    a: Place
    """(rank, into)."""
    b: Place
    """(out, rank)."""
    scale: float
    transposed: bool
    """The matrix that it is added to is (into, out): embeddings and `Conv1D`."""
    magnitude: Place | None
    """DoRA: (out,); the sum's rows (columns where transposed) are brought to these lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one tensor."""

    saved: Place | None = None
    """Taken instead of the base's."""
    trained: bool = False
    """`saved` was trained whole (`modules_to_save`); else it is the base's own, saved because it was resized."""
    pair: Pair | None = None
    rows: tuple[int, ...] = ()
    """Of these rows `values` (rows, width) are taken."""
    values: Place | None = None
    bias: tuple[Place, float] | None = None
    """A vector that is added, with its scale: `lora_bias`."""

    @property
    def apart(self) -> bool:
        """Holds for this end of a tied model alone."""
        return self.pair is not None or self.trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A tensor of the result."""

    entry: Entry
    start: Place
    """What it begins as."""
    change: Change = field(default_factory=Change)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """Everything that the merge writes."""

    outputs: dict[str, Output]
    """By name, in the order of the base's files."""
    config: dict[str, Any]
    """The result's `config.json`."""
    notes: tuple[Problem, ...]
    """To be told; nothing that stands in the way."""
    adapter: Path
    base: Path

    @property
    def changed(self) -> int:
        """Tensors that are not the base's own."""
        return sum(output.change != Change() for output in self.outputs.values())

    @property
    def bytes(self) -> int:
        return sum(output.entry.bytes for output in self.outputs.values())


def plan_merge(path: Path, base: Path | None = None, *, dtype: Dtype | None = None) -> MergePlan:
    """How the adapter at `path` goes into its base; `dtype` None: each tensor keeps the type that it has in the base.

    Raises `NotFound`, and `Refused` with everything that stands in the way.
    """
    found = judge_mergeable(path, base)
    changes = _Reading(found).changes()
    outputs, tied, notes = _outputs(found, changes, DTYPES[dtype] if dtype else None)
    config = _config(found, outputs, tied, dtype)
    return MergePlan(
        outputs=outputs, config=config, notes=tuple(notes), adapter=found.adapter.path, base=found.base.folder.path
    )


class _Reading:
    """Finds the tensor of the base that each tensor of the adapter changes."""

    def __init__(self, found: Mergeable) -> None:
        self.found = found
        self.targets: Targets = read_targets(found.config)
        self.names: Collection[str] = found.base.names
        self.lost: list[str] = []
        self.problems: list[Problem] = []

    def changes(self) -> dict[str, Change]:
        """By the tensor's name in the result. Raises `Refused`."""
        pairs: dict[str, dict[str, Place]] = {}
        changes: dict[str, Change] = {}
        for name, (header, tensor) in self.found.weights.where.items():
            place, plain = Place(header.path, tensor), name.removeprefix(PREFIX)
            if ".original_module." in plain or ".modules_to_save." in plain:
                continue  # peft saves a resized layer that was trained whole once more, with its wrapper's names
            if match := PART.fullmatch(plain):
                pairs.setdefault(match["module"], {})[match["part"]] = place
                continue
            rows = next((plain.removesuffix(f".{end}") for end in _TOKENS if plain.endswith(f".{end}")), None)
            change = self._saved(plain, place) if rows is None else self._rows(rows, place)
            self._add(changes, name, plain.replace(".base_layer.", ".") if rows is None else f"{rows}.weight", change)
        for module, parts in pairs.items():
            pair = self._pair(module, parts)
            if pair is not None:
                self._add(changes, PREFIX + module, f"{module}.weight", Change(pair=pair))
            if bias := parts.get("lora_B.bias"):
                change = Change(bias=(bias, self.targets.scale(module)))
                self._add(changes, f"{PREFIX}{module}.lora_B.bias", f"{module}.bias", change)
        self._refuse()
        return changes

    def _add(self, changes: dict[str, Change], name: str, wanted: str, change: Change | None) -> None:
        """Note a change of the tensor that modules call `wanted`; one that is not there is lost."""
        target = resolve(wanted, self.names)
        if target is None and wanted == OUTPUT and is_tied(self.found.base_config, self.found.base.weights):
            target = OUTPUT
        if target is None or change is None:
            self.lost.append(name)
            return
        old = changes.get(target, Change())
        new = {f: getattr(change, f) for f in Change.__dataclass_fields__ if getattr(change, f)}
        changes[target] = replace(old, **new)

    def _saved(self, plain: str, place: Place) -> Change:
        saved = any(f".{name}." in f".{plain}" for name in self.targets.saved) or plain.endswith(".bias")
        return Change(saved=place, trained=saved)

    def _rows(self, module: str, place: Place) -> Change | None:
        told = self.found.config.get("trainable_token_indices")
        if isinstance(told, dict):
            told = next((v for k, v in told.items() if module == k or module.endswith(f".{k}")), None)
        if not isinstance(told, list) or not all(isinstance(row, int) and row >= 0 for row in told):
            return None
        return Change(rows=tuple(told), values=place) if place.tensor.shape[:1] == (len(told),) else None

    def _pair(self, module: str, parts: dict[str, Place]) -> Pair | None:
        embedding = "lora_embedding_A" in parts
        a, b = ("lora_embedding_A", "lora_embedding_B") if embedding else ("lora_A.weight", "lora_B.weight")
        if a not in parts or b not in parts:  # judged before: a half pair
            return None
        told = stored_transposed(module, self.found.base.model_type, self.targets.transposed)
        return Pair(
            a=parts[a],
            b=parts[b],
            scale=self.targets.scale(module),
            transposed=embedding or told,
            magnitude=parts.get("lora_magnitude_vector") or parts.get("lora_magnitude_vector.weight"),
        )

    def _refuse(self) -> None:
        if biases := [name for name in self.lost if name.endswith(".lora_B.bias")]:
            self.problems.append(refusal("merge.no-bias", names=_few(biases), count=len(biases)))
        if places := [name for name in self.lost if not name.endswith(".lora_B.bias")]:
            base = self.found.base.name
            self.problems.append(refusal("merge.no-place", names=_few(places), count=len(places), base=base))
        if self.problems:
            raise Refused(self.problems)


def resolve(wanted: str, names: Collection[str]) -> str | None:
    """The name in the files of what a model calls `wanted`: older files leave the model's own prefix out."""
    if wanted in names:
        return wanted
    first, _, rest = wanted.partition(".")
    return rest if first in ("model", "transformer", "gpt_neox") and rest in names else None


def _outputs(
    found: Mergeable, changes: dict[str, Change], dtype: str | None
) -> tuple[dict[str, Output], bool | None, list[Problem]]:
    """The tensors of the result, whether its ends are tied (None: as before), and what is to be told."""
    weights = found.base.weights
    source = {name: Place(header.path, tensor) for name, (header, tensor) in _on_disk(weights)}
    notes: list[Problem] = []
    tied: bool | None = None
    embedding = input_embedding(weights)
    if embedding is not None and is_tied(found.base_config, weights):
        changes, tied = _untie(changes, embedding, bool(found.config.get("ensure_weight_tying")))
        if tied:
            if embedding in changes:
                source.pop(OUTPUT, None)
        elif changes.keys() & {embedding, OUTPUT}:
            source[OUTPUT] = source[embedding]
            notes.append(Problem(code="untied", severity="info", says="merge.untied"))
    outputs: dict[str, Output] = {}
    problems: list[Problem] = []
    if nowhere := sorted(changes.keys() - source.keys()):  # an output layer without a tensor, tied to who knows what
        problems.append(refusal("merge.no-place", names=_few(nowhere), count=len(nowhere), base=found.base.name))
    for name, place in source.items():
        change = changes.get(name, Change())
        start = change.saved or place
        kept = place.tensor.dtype
        if kept not in ELEMENT_BYTES:
            problems.append(refusal("merge.dtype", name=name, dtype=kept))
            continue
        if change != Change() and kept not in FLOATS:
            problems.append(refusal("merge.quantised", base=found.base.name, method=kept))
            continue
        entry = Entry(name=name, dtype=dtype if dtype and kept in FLOATS else kept, shape=start.tensor.shape)
        outputs[name] = Output(entry=entry, start=start, change=change)
        if not _fits(outputs[name], place.tensor, resized=name in (embedding, OUTPUT)):
            problems.append(refusal("merge.shape", name=name, shape=str(list(place.tensor.shape))))
    if problems:
        raise Refused(problems)
    return outputs, tied, notes


def _on_disk(weights: Weights) -> Iterable[tuple[str, tuple[Header, Tensor]]]:
    """In the order in which they lie, so that each file is read from its start to its end."""
    return sorted(weights.where.items(), key=lambda item: (item[1][0].path.name, item[1][1].start))


def _untie(changes: dict[str, Change], embedding: str, ensured: bool) -> tuple[dict[str, Change], bool]:
    """What a tied model's two ends become, and whether they stay one.

    They share what is the base's own (a resized vocabulary) and trained tokens of the embedding. What was added to one
    of them, or trained whole, belongs to it alone, unless the training has held them together (`ensure_weight_tying`).
    """
    first, last = changes.get(embedding, Change()), changes.get(OUTPUT, Change())
    own = next((end.saved for end in (first, last) if end.saved and not end.trained), None)
    if own is not None:
        first = first if first.trained else replace(first, saved=own)
        last = last if last.trained else replace(last, saved=own)
    if not last.rows:
        last = replace(last, rows=first.rows, values=first.values)
    rest = {name: change for name, change in changes.items() if name not in (embedding, OUTPUT)}
    dora = any(end.pair and end.pair.magnitude for end in (first, last))
    stay = first == last or (ensured and not dora and first.apart and first.rows == last.rows)
    if stay:
        return (rest if first == Change() else rest | {embedding: first}), True
    return rest | {embedding: first, OUTPUT: last}, False


def _fits(output: Output, base: Tensor, *, resized: bool) -> bool:
    """Whether all shapes agree; of an embedding that was saved whole the number of rows may be another one."""
    change, shape = output.change, output.entry.shape
    fits = shape == base.shape or (resized and shape[1:] == base.shape[1:])
    if pair := change.pair:
        a, b = pair.a.tensor.shape, pair.b.tensor.shape
        wanted = shape[::-1] if pair.transposed else shape
        fits = fits and len(a) == len(b) == 2 and a[0] == b[1] and (b[0], a[1]) == wanted
        if pair.magnitude is not None:
            fits = fits and math.prod(pair.magnitude.tensor.shape) == b[0]
    if change.values is not None:
        fits = fits and change.values.tensor.shape[1:] == shape[1:] and max(change.rows, default=0) < shape[0]
    if change.bias is not None:
        fits = fits and change.bias[0].tensor.shape == shape
    kinds = {place.tensor.dtype for place in places(output) if place is not output.start or change != Change()}
    return fits and kinds <= FLOATS


def places(output: Output) -> tuple[Place, ...]:
    """All that is read for a tensor."""
    change, pair = output.change, output.change.pair
    found = (
        output.start,
        change.values,
        change.bias[0] if change.bias else None,
        *((pair.a, pair.b, pair.magnitude) if pair else ()),
    )
    return tuple(place for place in found if place is not None)


def _config(found: Mergeable, outputs: dict[str, Output], tied: bool | None, dtype: Dtype | None) -> dict[str, Any]:
    """The base's, with the type, the size of the vocabulary and the tie as they are now; no path of this machine."""
    config = copy.deepcopy(found.base_config)
    config.pop("_name_or_path", None)
    inner = config.get("text_config")
    parts = [config, inner] if isinstance(inner, dict) else [config]
    embedding = input_embedding(found.base.weights)
    for part in parts:
        if dtype is not None:
            part |= {key: NAMES[DTYPES[dtype]] for key in ("dtype", "torch_dtype") if key in part}
        if embedding is not None and "vocab_size" in part and embedding in outputs:
            rows = outputs[embedding].entry.shape[0]
            if rows != found.base.rows:
                part["vocab_size"] = rows
        if tied is False and (part is config or "tie_word_embeddings" in part):
            part["tie_word_embeddings"] = False
    if dtype is not None and not config.keys() & {"dtype", "torch_dtype"}:
        config["dtype"] = NAMES[DTYPES[dtype]]
    return config


def _few(names: list[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" … (+{more})" if more > 0 else "")
