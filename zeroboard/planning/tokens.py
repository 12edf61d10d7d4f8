"""Tokenised data: its name, a hash of everything that decides what the tokens are; and what a plan makes of it."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

from zeroboard.catalogue import bundled_model
from zeroboard.contract.mix import PLAIN, DataPart, Mix
from zeroboard.contract.plan import TOKENS_VERSION, ModelFacts, TokenFacts
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.spec import Packing, RunSpec
from zeroboard.data.folders import data_files, is_closed
from zeroboard.files import sha256_file, sha256_text, to_json
from zeroboard.modelfiles import TOKEN_FILES


def tokens_key(
    data: Path,
    model: ModelFacts,
    max_length: int,
    *,
    evaluation: float = 0.0,
    seed: int = 0,
    columns: Mapping[str, str] = MappingProxyType({}),
    mix: Mix = PLAIN,
) -> str:
    """The folder's name in `cache/tokens/`: 32 hexadecimal digits over data, tokenizer, maximum length and version.

    `columns`: what a person says that columns mean. `mix`: what there is besides, by absolute paths; the contents,
    columns and weights of its files count, and the seed where a weight leaves a choice to it.

    Where rows are held out their share counts, and the seed that chooses them; otherwise the seed changes nothing.

    A bundled model counts by its package and that package's version, so that the key is the same before and after it
    is converted. Reads the data file once. Raises `FileNotFoundError` where the data is not there.
    """
    parts: list[object] = [TOKENS_VERSION, content(data), _tokenizer(model), max_length]
    if evaluation:
        parts += [evaluation, seed]
    if columns:
        parts.append(sorted(columns.items()))
    if not mix.plain:
        parts += [list(mix.weights), [_part(one) for one in (*mix.more, mix.held_out)], seed if mix.drawn else None]
    return sha256_text(to_json(parts, indent=None))[:32]


def spec_key(spec: RunSpec, data: Path, model: ModelFacts, mix: Mix) -> str:
    """`tokens_key` of what a spec asks for, its data and `mix` by absolute paths."""
    return tokens_key(
        data,
        model,
        spec.data.max_length,
        evaluation=spec.data.share,
        seed=spec.train.seed,
        columns=spec.data.chosen,
        mix=mix,
    )


def _part(part: DataPart | None) -> object:
    return None if part is None else [content(Path(part.path)), sorted(part.columns.items())]


def content(data: Path) -> str | list[str]:
    """A hash of the file; of a folder, of each of its data files. Those of large files are remembered."""
    if not data.is_dir():
        return _hash(data)
    return [f"{file.relative_to(data)} {_hash(file)}" for file in data_files(data)]


LARGE = 16 << 20
"""Bytes from which on a file is not read again while its time and size stay: writing so much takes longer than the
clock of a file system ticks."""


NO_FILE = "no file"
"""In the place of the hash of what is none: a pipe or a device would be read without end. It is refused elsewhere."""


def _hash(file: Path) -> str:
    facts = file.stat()
    if not stat.S_ISREG(facts.st_mode) or is_closed(file):
        return NO_FILE
    if facts.st_size < LARGE:
        return sha256_file(file)
    return _known_hash(file, facts.st_size, facts.st_mtime_ns, facts.st_ino)


@lru_cache(maxsize=64)
def _known_hash(file: Path, size: int, time: int, number: int) -> str:
    """The hash of a file that is told from others by its size, its time and its number on the disk."""
    return sha256_file(file)


def _tokenizer(model: ModelFacts) -> list[str]:
    bundled = bundled_model(model.name)
    if bundled is not None:
        try:
            return [bundled.package, version(bundled.package)]
        except PackageNotFoundError:  # converted earlier, and the package is gone since
            return [bundled.package, "-"]
    folder = Path(model.path)
    return [f"{name} {sha256_file(folder / name)}" for name in TOKEN_FILES if (folder / name).is_file()]


def nothing_learned(facts: TokenFacts, *, path: Path, max_length: int) -> Problem | None:
    """Why there is nothing to train on; None where there is something."""
    if facts.rows and facts.learned:
        return None
    if facts.refused and not facts.without_trainable:
        row = facts.named["template-refused"][0]
        params: dict[str, Scalar] = {"row": row, "why": facts.refusal}
        return Problem(code="template-refused", field="data.path", params=params)
    params = {"path": path.name, "rows": facts.without_trainable + facts.refused, "max_length": max_length}
    return Problem(code="no-trainable-tokens", field="data.path", params=params)


RECURRENT = frozenset(
    (
        "bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "lfm2", "lfm2_moe", "mamba", "mamba2",
        "nemotron_h", "qwen3_5", "qwen3_5_moe", "qwen3_next", "recurrent_gemma", "rwkv", "xlstm", "zamba", "zamba2",
    )
)  # fmt: skip
"""Types of models that carry a state from token to token. Packed samples would hand it on to their neighbours, so they
are not packed; every other model is asked itself before its first step."""


def rows_of(facts: TokenFacts, packing: Packing) -> int:
    """What an epoch has to go through: the samples, or the rows that they share."""
    return facts.packed if packing == "packed" else facts.rows


STEP = 64
"""Lengths that are suggested are multiples of it."""


def suggest_length(facts: TokenFacts, context: int | None) -> tuple[int, str] | None:
    """A maximum length for this data and the key of the reason; None where there is no row to judge by.

    As long as the longest row, where it is at most half longer than 99 of 100; else as long as those. `context`: the
    length that the model was made for, which is never exceeded.
    """
    if not facts.longest:
        return None
    whole = facts.longest <= 1.5 * facts.p99
    wanted = -(-(facts.longest if whole else facts.p99) // STEP) * STEP
    if context is not None and wanted > context:
        return context, "decision.length.context"
    return wanted, "decision.length.longest" if whole else "decision.length.most"
