"""Which files of a hub's data set are its training split, told by their names and by the repository's card.

The hub's own conventions, as `datasets` 5.2 reads them (`data_files.py`, `utils/metadata.py`): the `configs` of the
card; `data/train-00000-of-00004.parquet`; `train` or `training` in the name of a folder, then of a file. Where nothing
says which files are meant, `datasets` takes all of them; here one file, or the numbered parts of one, is taken, and
otherwise the person is asked. Nothing is read but names and the card's front matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

import yaml

from zeroboard.data.folders import named_as_data

TRAIN = "train"
KEYWORDS: Mapping[str, tuple[str, ...]] = {
    TRAIN: ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
NOT_DATA = ("config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json")
"""Files about the data that have the ending of data."""
MAGIC = "*?["

_SHARDED = re.compile(r"data/([^/]+)-\d{5}-of-\d{5}[^/]*\.[^/]*")
_PART_OF = re.compile(r"-\d{5}-of-\d{5}")
_FRONT = re.compile(r"\A\ufeff?---\r?\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
_SEPARATOR = r"[-._ 0-9]"
_PACKED = re.compile(r"\.(?:gz|zst)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The files that are meant, or why that cannot be told."""

    files: tuple[str, ...] = ()
    why: str | None = None
    """`none`: there are no data files; `absent`: what was named is not there; `unclear`: several, and nothing says
    which; `kinds`: they are of several kinds."""
    shown: tuple[str, ...] = ()
    """Files that a person can choose from."""


def choose(names: Iterable[str], asked: str = "", card: str = "") -> Chosen:
    """The files of a repository that are trained on. `asked`: a file, a folder or a pattern; `card`: its README."""
    everything = sorted(names)
    data = [name for name in everything if _is_data(name)]
    if asked and asked in everything:
        return Chosen(files=(asked,))
    if asked and any(sign in asked for sign in MAGIC):
        return _checked(_matching(asked, data), data)
    if asked:
        within = [name for name in data if name.startswith(f"{asked}/")]
        found = _by_names([name.removeprefix(f"{asked}/") for name in within])
        if within and found == []:
            return Chosen(why="unclear", shown=tuple(within))
        return _checked(within if found is None else [f"{asked}/{name}" for name in found], data)
    if not data:
        return Chosen(why="none")
    told = _by_card(card, data)
    found = told if told is not None else _by_names(data)
    if found is None and _one(data):
        found = data
    return _checked(found, data) if found else Chosen(why="unclear", shown=tuple(data))


def _checked(found: Sequence[str], data: Sequence[str]) -> Chosen:
    """Files of several kinds are mostly the same rows twice."""
    if not found:
        return Chosen(why="absent", shown=tuple(data))
    kinds = {PurePosixPath(_PACKED.sub("", name)).suffix.lower() for name in found}
    return Chosen(files=tuple(found)) if len(kinds) == 1 else Chosen(why="kinds", shown=tuple(found))


def _is_data(name: str) -> bool:
    path = PurePosixPath(name)
    inside = any(part.startswith("__") for part in path.parts[:-1]) or any(part.startswith(".") for part in path.parts)
    return not inside and path.name not in NOT_DATA and named_as_data(path.name)


def _one(data: Sequence[str]) -> bool:
    """One file, or the numbered parts of one."""
    parts = {_PART_OF.sub("", name) for name in data}
    return len(data) == 1 or (len(parts) == 1 and all(_PART_OF.search(name) for name in data))


def _by_names(data: Sequence[str]) -> list[str] | None:
    """The training files by the names of files and folders; None where none of them names a split.

    Empty where there are splits, but none to train on.
    """
    sharded = {name: found[1] for name in data if (found := _SHARDED.fullmatch(name))}
    if sharded:
        return [name for name, split in sharded.items() if split == TRAIN]
    for named in (_in_folders, _in_file):
        splits = {split: [name for name in data if named(name, words)] for split, words in KEYWORDS.items()}
        if any(splits.values()):
            return splits[TRAIN]
    return None


def _in_folders(name: str, words: Sequence[str]) -> bool:
    pattern = re.compile(rf"(?:.*{_SEPARATOR})?(?:{'|'.join(words)})(?:{_SEPARATOR}.*)?")
    return any(pattern.fullmatch(part) for part in PurePosixPath(name).parts[:-1])


def _in_file(name: str, words: Sequence[str]) -> bool:
    pattern = re.compile(rf"(?:.*{_SEPARATOR})?(?:{'|'.join(words)}){_SEPARATOR}.*")
    return pattern.fullmatch(PurePosixPath(name).name) is not None


def _by_card(card: str, data: Sequence[str]) -> list[str] | None:
    """The training files that the card names; None where it names none. Empty where it leaves a choice."""
    configs = _configs(card)
    usual = [one for one in configs if len(configs) == 1 or one.get("config_name") == "default" or one.get("default")]
    if not configs:
        return None
    if len(usual) != 1:
        return []
    one = usual[0]
    folder = str(one["data_dir"]).strip("/") if isinstance(one.get("data_dir"), str) else ""
    patterns = _train_patterns(one.get("data_files"))
    if patterns is None:
        if not folder:
            return None
        inner = [name for name in data if name.startswith(f"{folder}/")]
        found = _by_names([name.removeprefix(f"{folder}/") for name in inner])
        return inner if found is None else [f"{folder}/{name}" for name in found]
    meant = {name for one in patterns for name in _matching(f"{folder}/{one}" if folder else one, data)}
    return [name for name in data if name in meant]


def _configs(card: str) -> list[Mapping[str, Any]]:
    """The entries of the card's front matter that say where data lies."""
    front = _FRONT.match(card)
    try:
        value = yaml.safe_load(front[1]) if front is not None else None
    except (yaml.YAMLError, RecursionError, ValueError):  # a date that is none raises ValueError
        return []
    configs = value.get("configs") if isinstance(value, dict) else None
    found = [one for one in configs if isinstance(one, dict)] if isinstance(configs, list) else []
    return [one for one in found if one.get("data_files") or one.get("data_dir")]


def _train_patterns(given: Any) -> list[str] | None:
    """The patterns of the training split; None where nothing is said about files."""
    if not given:
        return None
    if isinstance(given, dict):
        given = [{"split": split, "path": path} for split, path in given.items()]
    found: list[str] = []
    for one in given if isinstance(given, list) else [given]:
        if isinstance(one, dict):
            paths = one.get("path") if one.get("split") == TRAIN else ()
            found += [path for path in (paths if isinstance(paths, list) else [paths]) if isinstance(path, str)]
        elif isinstance(one, str):
            found.append(one)
    return found


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a pattern means, as `fsspec` reads it: `*` stays within a name, `**` goes over folders.

    It may stand in a stranger's card, so it is followed part by part and is no regular expression of the whole, which
    some would make try for ever.
    """
    parts = pattern.removeprefix("./").replace("[^", "[!").split("/")
    return [name for name in names if _means(parts, name.split("/"))]


def _means(pattern: Sequence[str], name: Sequence[str]) -> bool:
    reached = {0}  # how many parts of the name what was read of the pattern can stand for
    for part in pattern:
        if part == "**":
            reached = set(range(min(reached, default=len(name)), len(name)))
        else:
            reached = {one + 1 for one in reached if one < len(name) and fnmatchcase(name[one], part)}
    return bool(reached) if pattern[-1] == "**" else len(name) in reached
