"""From a conversation to its text, and where in that text the assistant's answers stand.

The conversation is rendered whole by the chat template; the place of each answer in that text is found by rendering it
once more with marks instead of contents. What the tokens are, and which are learned, is `marking`'s part.

Covered: templates with a default system turn; several turns; templates that trim a content's ends; templates that want
contents as lists of parts; templates without a place for a system turn (it becomes the beginning of the first
question). Refused (never guessed): a template that raises, or whose text does not hold an answer where it must stand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from zeroboard.data.conversations import Turn
from zeroboard.data.folding import without_system
from zeroboard.data.turns import Role

Span = tuple[int, int]
"""Start and end in characters."""

MARK = re.compile("\ue000([0-9]+)\ue001")
"""Private characters that no template writes, around the number of a turn."""

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + END + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""For a model without a template; END is `<|im_end|>` where its vocabulary has it, else the model's own end token."""


class TemplateRefused(Exception):
    """The chat template cannot render this conversation, or not so that its answers can be found again."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as text."""

    text: str
    answers: tuple[tuple[Span, int], ...]
    """For each answer that is learned its span, and a place behind the end of its turn."""
    folded: bool = False
    """The system turn became a part of the first question, because the template has no place for it."""


def ensure_template(tokenizer: PreTrainedTokenizerBase) -> Literal["model", "chatml"]:
    """Give a tokenizer without a chat template ChatML; returns whose template it is."""
    if tokenizer.chat_template:
        return "model"
    known = "<|im_end|>" in tokenizer.get_vocab()
    end = "<|im_end|>" if known or not tokenizer.eos_token else str(tokenizer.eos_token)
    tokenizer.chat_template = CHATML.replace("END", repr(end))
    return "chatml"


def render(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], *, prompt: bool = False) -> str:
    """The conversation as text; with `prompt`, followed by what makes the model answer.

    Raises `TemplateRefused` with the template's own words.
    """
    return _render(tokenizer, turns, wants_parts(tokenizer, str(tokenizer.chat_template)), prompt=prompt)


def place(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn]) -> Rendered:
    """Render a conversation of system, user and assistant, and find its answers; raises `TemplateRefused`."""
    if turns and turns[0].role == "system" and not has_system(tokenizer, str(tokenizer.chat_template)):
        return _place(tokenizer, without_system(turns), folded=True)
    return _place(tokenizer, turns, folded=False)


def _place(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], *, folded: bool) -> Rendered:
    text = render(tokenizer, turns)
    found = answer_spans(tokenizer, turns, text)
    answers = (turn for turn in turns if turn.role == "assistant")
    kept = tuple(place for place, turn in zip(found, answers, strict=True) if turn.learned)
    return Rendered(text=text, answers=kept, folded=folded)


def answer_spans(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], text: str) -> list[tuple[Span, int]]:
    """For each of the assistant's turns in the rendered `text`: the answer's span, and a place behind its turn's end.

    Raises `TemplateRefused` where an answer cannot be found in its place.
    """
    return _by_marks(tokenizer, turns, text) or _by_prefixes(tokenizer, turns, text)


@lru_cache(maxsize=64)
def wants_parts(tokenizer: PreTrainedTokenizerBase, template: str) -> bool:
    """Whether the template writes contents only where they are lists of parts, as templates of image models do.

    `template` is the tokenizer's own; it stands here because another may be put in its place.
    """
    return not _holds(tokenizer, ("user", "assistant"), parts=False) and _holds(
        tokenizer, ("user", "assistant"), parts=True
    )


@lru_cache(maxsize=64)
def has_system(tokenizer: PreTrainedTokenizerBase, template: str) -> bool:
    """Whether the template writes a system turn. Where it writes no conversation at all the answer is yes."""
    parts = wants_parts(tokenizer, template)
    return _holds(tokenizer, ("system", "user", "assistant"), parts=parts) or not _holds(
        tokenizer, ("user", "assistant"), parts=parts
    )


def _holds(tokenizer: PreTrainedTokenizerBase, roles: Sequence[Role], *, parts: bool) -> bool:
    """Whether the template writes every content of such a conversation."""
    try:
        text = _render(tokenizer, _marked(roles), parts)
    except TemplateRefused:
        return False
    return sorted(map(int, MARK.findall(text))) == list(range(len(roles)))


def _render(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], parts: bool, *, prompt: bool = False) -> str:
    messages: list[dict[str, Any]] = [
        {"role": turn.role, "content": [{"type": "text", "text": turn.content}] if parts else turn.content}
        for turn in turns
    ]
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt))
    except Exception as error:  # a template is a program from elsewhere: it may raise whatever it likes
        raise TemplateRefused(str(error) or type(error).__name__) from error


def _marked(roles: Sequence[Role]) -> list[Turn]:
    return [Turn(role, f"\ue000{number}\ue001") for number, role in enumerate(roles)]


@lru_cache(maxsize=512)
def _frames(
    tokenizer: PreTrainedTokenizerBase, template: str, roles: tuple[Role, ...]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """What the template writes around and between the contents of such a conversation, and the turns in that order.

    Raises `TemplateRefused`.
    """
    pieces = MARK.split(render(tokenizer, _marked(roles)))
    return tuple(pieces[::2]), tuple(int(number) for number in pieces[1::2])


def _forms(content: str) -> dict[str, None]:
    """A text as a template may write it: as it is, or with its ends trimmed."""
    return dict.fromkeys((content, content.rstrip(), content.lstrip(), content.strip()))


def _by_marks(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], text: str) -> list[tuple[Span, int]] | None:
    """Render once more with marks in place of the contents; what stands between the marks frames the answers.

    None where the rendered text is not that frame with the contents put back: the template looks into contents.
    """
    roles = tuple(turn.role for turn in turns)
    frames, numbers = _frames(tokenizer, str(tokenizer.chat_template), roles)
    wanted = [number for number, role in enumerate(roles) if role == "assistant"]
    if [number for number in numbers if roles[number] == "assistant"] != wanted or not text.startswith(frames[0]):
        return None
    position = len(frames[0])
    found: list[tuple[Span, int]] = []
    for number, frame in zip(numbers, frames[1:], strict=True):
        content = turns[number].content
        if text.startswith(content + frame, position):
            form: str | None = content
        else:
            form = next((form for form in _forms(content) if text.startswith(form + frame, position)), None)
        if form is None:
            return None
        start, position = position, position + len(form) + len(frame)
        if roles[number] == "assistant":
            found.append(((start, start + len(form)), position))
    return found if position == len(text) else None


def _by_prefixes(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], text: str) -> list[tuple[Span, int]]:
    """Render the conversation up to each answer: where generation would begin, there the answer begins.

    A template may begin it itself (`<think>`): then what the model says is the rest.
    """
    found: list[tuple[Span, int]] = []
    for number, turn in enumerate(turns):
        if turn.role != "assistant":
            continue
        prompt = render(tokenizer, turns[:number], prompt=True) if number else ""
        through = render(tokenizer, turns[: number + 1])
        said = _said(text, prompt, turn.content) if text.startswith(prompt) else None
        if said is None or not text.startswith(through):
            raise TemplateRefused(f"the answer of turn {number + 1} is not found in its place")
        found.append(((len(prompt), len(prompt) + len(said)), len(through)))
    return found


def _said(text: str, prompt: str, content: str) -> str | None:
    """The content as it stands behind the prompt, without what the prompt has of it; None where it does not."""
    for form in _forms(content):
        for begun in range(min(len(form), len(prompt))):
            if prompt.endswith(form[:begun]) and text.startswith(form[begun:], len(prompt)):
                return form[begun:]
    return None
