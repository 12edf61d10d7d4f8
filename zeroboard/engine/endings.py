"""What a delivered folder's tokenizer says: its end tokens as numbers and text, and whose form its template has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transformers import PreTrainedTokenizerBase

from zeroboard.checkpoints.folder import Folder, list_folder
from zeroboard.checkpoints.inspect import CONFIG
from zeroboard.checkpoints.tokenizer import has_tokenizer
from zeroboard.data.conversations import Turn
from zeroboard.engine.marking import end_tokens
from zeroboard.engine.rendering import TemplateRefused, ensure_template, render
from zeroboard.engine.tokens import load_tokenizer
from zeroboard.files import foreign_json, write_atomic
from zeroboard.modelfiles import GENERATION, TEMPLATE

START, END = "<|im_start|>", "<|im_end|>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """How a conversation with it goes."""

    ends: tuple[int, ...] = ()
    stops: tuple[str, ...] = ()
    """The same as text."""
    template: Literal["chatml", "other"] | None = None
    """`chatml`: it writes exactly ChatML. None: no tokenizer, or a template that refuses a plain conversation."""
    system: str | None = None
    """The system turn that the template writes where a conversation has none."""


def describe(folder: Path, *, trust_remote_code: bool = False) -> Spoken:
    """Load the tokenizer of a folder; where it has no template, ChatML is written out: the training used that."""
    if not has_tokenizer(list_folder(folder)):
        return Spoken()
    try:
        tokenizer = load_tokenizer(folder, trust_remote_code=trust_remote_code)
    except (OSError, ValueError):  # the verification that follows says why no tokenizer can be loaded
        return Spoken()
    if ensure_template(tokenizer) == "chatml":
        write_atomic(folder / TEMPLATE, str(tokenizer.chat_template))
    ends = list(end_tokens(tokenizer))
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ends:
        ends.append(int(tokenizer.eos_token_id))
    stops = tuple(str(tokenizer.decode([token])) for token in ends)
    template, system = _form(tokenizer)
    return Spoken(ends=tuple(ends), stops=stops, template=template, system=system)


def write_generation(target: Path, homes: list[Folder], spoken: Spoken) -> None:
    """Write the generation settings of a folder, or of the first of `homes` that has some, with every known end token.

    Known are those of the settings, of each config, of the tokenizer, and what the template writes.
    """
    all_homes = [list_folder(target), *homes]
    settings = next((dict(home.json(GENERATION).value or {}) for home in all_homes if GENERATION in home.files), {})
    ends: list[int] = []
    for known in (settings.get("eos_token_id"), *(_eos(home) for home in all_homes), *spoken.ends):
        ends += [token for token in (known if isinstance(known, list) else [known]) if isinstance(token, int)]
    ends = list(dict.fromkeys(ends))
    if ends:
        settings["eos_token_id"] = ends[0] if len(ends) == 1 else ends
    if settings:
        write_atomic(target / GENERATION, foreign_json(settings))


def _eos(home: Folder) -> object:
    return (home.json(CONFIG).value or {}).get("eos_token_id")


def _form(tokenizer: PreTrainedTokenizerBase) -> tuple[Literal["chatml", "other"] | None, str | None]:
    """Whether a whole conversation is rendered as ChatML, and the system turn that stands before one without."""
    turns = [Turn("system", "s"), Turn("user", "q"), Turn("assistant", "a"), Turn("user", "r")]
    plain = "".join(f"{START}{turn.role}\n{turn.content}{END}\n" for turn in turns) + f"{START}assistant\n"
    try:
        if render(tokenizer, turns, prompt=True) != plain:
            return "other", None
        alone = render(tokenizer, [Turn("user", "q")], prompt=True)
    except TemplateRefused:
        return None, None
    before = alone.removesuffix(f"{START}user\nq{END}\n{START}assistant\n")
    if before == alone:
        return "other", None
    head = f"{START}system\n"
    if not before:
        return "chatml", None
    if before.startswith(head) and before.endswith(f"{END}\n"):
        return "chatml", before[len(head) : -len(f"{END}\n")]
    return "other", None
