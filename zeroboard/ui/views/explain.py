"""A sentence for each piece of a preview: arguments, variables, and the fields of the files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from zeroboard.messages import Language, has, say

POINTED: dict[str, str] = {
    "zero_optimization.stage": "stage",
    "zero_optimization.offload_optimizer.device": "offload-optimizer",
    "zero_optimization.offload_param.device": "offload-param",
    "train_batch_size": "global",
    "train_micro_batch_size_per_gpu": "micro",
    "gradient_accumulation_steps": "accumulation",
    "bf16.enabled": "bf16",
    "fp16.enabled": "fp16",
    "zero.stage": "stage",
    "zero.offload": "offload",
    "train.micro_batch": "micro",
    "train.accumulation": "accumulation",
    "train.precision": "precision",
}
"""Key path in a file → the word that points its line out (`ui.note.<word>`)."""

_KEY = re.compile(r'^(\s*)(?:"([^"]+)"|([\w.-]+)):')

_ARGUMENTS = {
    "-m": "module",
    "--standalone": "standalone",
    "--local-addr": "local-addr",
    "--nproc-per-node": "nproc",
    "--module": "engine",
    "train": "train",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a file, and what is said beside it."""

    text: str
    pointed: str | None
    """What the line decides, where it is one of those that are looked for; in few words."""
    says: str | None
    """What its field means; None where the line has none (a bracket)."""


def arguments(argv: tuple[str, ...], lang: Language) -> list[tuple[str, str]]:
    """(argument with its value, its sentence), in order; joined by spaces they are the command."""
    found = []
    for at, piece in enumerate(pieces(argv)):
        word = "python" if at == 0 else _ARGUMENTS.get(piece[0], "folder" if piece[-1] == argv[-1] else "other")
        found.append((piece, say(f"ui.arg.{word}", lang)))
    return [(" ".join(map(quoted, piece)), words) for piece, words in found]


def pieces(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The arguments, a flag together with its value."""
    at = 0
    while at < len(argv):
        flag = argv[at].startswith("-") and "=" not in argv[at]
        valued = flag and at + 1 < len(argv) and not argv[at + 1].startswith("-")
        yield argv[at : at + 1 + valued]
        at += 1 + valued


def quoted(word: str) -> str:
    """A word as a POSIX shell reads it back."""
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word, re.ASCII) else "'" + word.replace("'", "'\"'\"'") + "'"


def variable(name: str, lang: Language) -> str:
    """What an environment variable is set for."""
    key = f"ui.env.{name}"
    return say(key if has(key, lang) else "ui.env.other", lang)


def lines(content: str, ranks: int, lang: Language) -> Iterator[Line]:
    """Each line of a file with its sentences; a key's path follows from the indentation of JSON and YAML alike."""
    above: list[tuple[int, str]] = []
    for text in content.splitlines():
        found = _KEY.match(text)
        if found is None:
            yield Line(text=text, pointed=None, says=None)
            continue
        depth = len(found[1])
        while above and above[-1][0] >= depth:
            above.pop()
        above.append((depth, found[2] or found[3]))
        path = ".".join(name for _, name in above)
        yield Line(text=text, pointed=_pointed(path, text, ranks, lang), says=field(path, lang))


def field(path: str, lang: Language) -> str | None:
    """What a field means: of the DeepSpeed file, of the spec, or a section of the spec."""
    for key in (f"ds.{path}", f"field.{path}.hint", f"ui.section.{path}"):
        if has(key, lang):
            return say(key, lang)
    return None


def _pointed(path: str, text: str, ranks: int, lang: Language) -> str | None:
    note = POINTED.get(path)
    if note is None:
        return None
    if note in ("bf16", "fp16"):
        note += ".on" if "true" in text else ".off"
    return say(f"ui.note.{note}", lang, ranks=ranks)
