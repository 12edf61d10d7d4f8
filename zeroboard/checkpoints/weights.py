"""The weight files of a folder: which they are, their headers, sizes and index. Checks `header size index shards`.

Covered: damaged and foreign files, cut and too long files, an index that disagrees with the shards in either
direction, shards that are missing or lie there unnamed, names that lead out of the folder. Not covered: pickled
weights, which are never opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from zeroboard.checkpoints.findings import Findings
from zeroboard.checkpoints.folder import Folder
from zeroboard.errors import BrokenFile
from zeroboard.headers import Header, Tensor, read_header

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_model.safetensors"
PICKLED_MODEL = ("pytorch_model.bin", "pytorch_model.bin.index.json")
PICKLED_ADAPTER = "adapter_model.bin"


@dataclass(frozen=True, slots=True)
class Weights:
    """The headers that could be read."""

    headers: tuple[Header, ...]
    broken: bool
    """A file is missing or its header cannot be read, so the tensors are not all known."""
    where: dict[str, tuple[Header, Tensor]] = field(default_factory=dict)
    """Name of each tensor → its file and place."""

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {name: tensor for name, (_, tensor) in self.where.items()}

    def inside(self) -> Iterator[tuple[Header, str, Tensor]]:
        """The tensors whose bytes are all there, in the order in which they lie on disk."""
        for header in self.headers:
            for name, tensor in sorted(header.tensors.items(), key=lambda item: item[1].start):
                if tensor.end <= header.size:
                    yield header, name, tensor


def model_files(folder: Folder) -> tuple[str, ...]:
    """The safetensors files that make up a full model, in the order in which transformers looks for them."""
    top = folder.top()
    if SINGLE in top:
        return (SINGLE,)
    if INDEX in top:
        return tuple(sorted(_index_map(folder).keys() & top.keys()))
    return tuple(sorted(n for n in top if n.endswith(".safetensors") and not n.startswith("adapter_model")))


def read_model(folder: Folder, findings: Findings) -> Weights:
    """Headers of a full model, with the checks of files, index and shards."""
    names = model_files(folder)
    missing = _judge_index(folder, findings)
    weights = read_files(folder, names, findings)
    if INDEX in folder.files and SINGLE not in folder.files:
        _compare_index(folder, weights, findings)
        findings.settle("index", "shards")
    elif len(names) > 1:
        findings.fail("index", "missing", count=len(names))
    _judge_strays(folder, names, findings)
    return Weights(weights.headers, weights.broken or missing, weights.where)


def read_files(folder: Folder, names: Sequence[str], findings: Findings) -> Weights:
    """The headers of these files, with the checks `header` and `size`."""
    headers: list[Header] = []
    where: dict[str, tuple[Header, Tensor]] = {}
    broken = False
    for name in names:
        try:
            header = read_header(folder.path / name)
        except BrokenFile as error:
            findings.fail("header", error.says, **error.params)
            broken = True
            continue
        except OSError as error:
            findings.fail("header", "unreadable", name, why=error.strerror or str(error))
            broken = True
            continue
        headers.append(header)
        if header.size < header.promised:
            findings.fail("size", "cut", name, size=header.size, promised=header.promised)
        elif header.size > header.promised:
            findings.fail("size", "too-long", name, extra=header.size - header.promised, promised=header.promised)
        for key, tensor in header.tensors.items():
            if key in where:
                findings.fail("index", "twice", key, file=name, other=where[key][0].path.name)
            where[key] = (header, tensor)
    if names:
        findings.settle("header", files=len(names), tensors=len(where))
    if headers:
        findings.settle("size", bytes=sum(h.size for h in headers))
    return Weights(tuple(headers), broken, where)


def _index_map(folder: Folder) -> dict[str, list[str]]:
    """Shard → its tensors, as the index says. Names that are no plain file name are left out."""
    index = folder.json(INDEX).value or {}
    entries = index.get("weight_map")
    shards: dict[str, list[str]] = {}
    for tensor, shard in entries.items() if isinstance(entries, dict) else ():
        if _plain(shard):
            shards.setdefault(shard, []).append(tensor)
    return shards


def _plain(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and "/" not in name and "\\" not in name


def _judge_index(folder: Folder, findings: Findings) -> bool:
    """Whether something that the index names is missing."""
    if INDEX not in folder.files or SINGLE in folder.files:
        return False
    index = folder.json(INDEX)
    entries = (index.value or {}).get("weight_map")
    if index.fault or not isinstance(entries, dict) or not entries:
        findings.fail("index", "unreadable", INDEX, why=index.fault or "weight_map")
        return True
    for shard in entries.values():
        if not _plain(shard):
            findings.fail("index", "unsafe-name", str(shard))
    shards = _index_map(folder)
    missing = sorted(shards.keys() - folder.top().keys())
    for shard in missing:
        findings.fail("shards", "missing", shard, tensors=len(shards[shard]))
    return bool(missing)


def _compare_index(folder: Folder, weights: Weights, findings: Findings) -> None:
    """Index against headers, both ways; shards that could not be read have been named already."""
    read = {header.path.name: header for header in weights.headers}
    shards = _index_map(folder)
    named = {tensor: shard for shard, tensors in shards.items() for tensor in tensors}
    for tensor, shard in named.items():
        if shard in read and tensor not in read[shard].tensors:
            holder = weights.where[tensor][0].path.name if tensor in weights.where else "–"
            findings.fail("index", "disagrees", tensor, shard=shard, holder=holder)
    for tensor, (header, _) in weights.where.items():
        if tensor not in named:
            findings.fail("index", "unnamed", tensor, shard=header.path.name)


def _judge_strays(folder: Folder, names: Sequence[str], findings: Findings) -> None:
    for name in folder.top():
        if name.endswith(".safetensors") and name not in names and not name.startswith("adapter_model"):
            findings.warn("shards", "stray", name)
    if SINGLE in names and INDEX in folder.files:
        findings.warn("index", "beside-single", INDEX)


def judge_dtype(weights: Weights, named: str | None, findings: Findings) -> None:
    """Check `dtype`: floating-point tensors of one type, the one that the config names (None: it names none)."""
    count = Counter(t.dtype for t in weights.tensors.values() if t.dtype in _FLOATS)
    if not count:
        return
    if len(count) > 1:
        rare = count.most_common()[-1][0]
        first = next(name for name, t in weights.tensors.items() if t.dtype == rare)
        types = ", ".join(f"{dtype} × {n}" for dtype, n in count.most_common())
        findings.warn("dtype", "mixed", first, types=types, rare=rare)
    elif named and _NAMES.get(named) not in (None, *count):
        findings.warn("dtype", "not-config", dtype=next(iter(count)), config=named)
    findings.settle("dtype", dtype=next(iter(count)))


_FLOATS = frozenset(("F64", "F32", "F16", "BF16"))
_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
