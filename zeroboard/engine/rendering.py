"""From a conversation to tokens, of which those that the assistant says are marked as learned.

Learned is decided by *position*: the conversation is rendered whole by the chat template, the place of each answer in
that text is found by rendering it once more with marks instead of contents, and a token is learned when it lies in an
answer or in what the template writes after it up to the token that ends the turn. Ids are never compared, so padding
may equal the end token.

Covered: templates with a default system turn; several turns; an end token preceded by a space; answers that begin with
white space which a tokenizer would merge with the template's; templates that trim a content's ends. Refused (never
guessed): a template that raises, or whose text does not hold an answer where it must stand.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from transformers import PreTrainedTokenizerBase

from zeroboard.data.conversations import Conversation, Turn
from zeroboard.data.folding import plain

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
class Sample:
    """One conversation as tokens."""

    ids: list[int]
    learned: list[bool]
    """As long as `ids`."""


def ensure_template(tokenizer: PreTrainedTokenizerBase) -> Literal["model", "chatml"]:
    """Give a tokenizer without a chat template ChatML; returns whose template it is."""
    if tokenizer.chat_template:
        return "model"
    known = "<|im_end|>" in tokenizer.get_vocab()
    end = "<|im_end|>" if known or not tokenizer.eos_token else str(tokenizer.eos_token)
    tokenizer.chat_template = CHATML.replace("END", repr(end))
    return "chatml"


def end_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The ids that end an answer in this tokenizer's template: what generation has to stop at. Empty: none found."""
    try:
        sample = encode(tokenizer, [Turn("user", "a"), Turn("assistant", "a")])
    except TemplateRefused:
        return ()
    last = [token for token, learned in zip(sample.ids, sample.learned, strict=True) if learned][-1:]
    special = set(tokenizer.all_special_ids) | set(tokenizer.get_added_vocab().values())
    return tuple(token for token in last if token in special)


def render(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], *, prompt: bool = False) -> str:
    """The conversation as text; with `prompt`, followed by what makes the model answer.

    Raises `TemplateRefused` with the template's own words.
    """
    messages = [{"role": turn.role, "content": turn.content} for turn in turns]
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt))
    except Exception as error:  # a template is a program from elsewhere: it may raise whatever it likes
        raise TemplateRefused(str(error) or type(error).__name__) from error


def answer_spans(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], text: str) -> list[tuple[Span, int]]:
    """For each of the assistant's turns in the rendered `text`: the answer's span, and a place behind its turn's end.

    Raises `TemplateRefused` where an answer cannot be found in its place.
    """
    return _by_marks(tokenizer, turns, text) or _by_prefixes(tokenizer, turns, text)


def _forms(content: str) -> list[str]:
    """A text as a template may write it: as it is, or with its ends trimmed."""
    return list(dict.fromkeys((content, content.rstrip(), content.strip())))


def _by_marks(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], text: str) -> list[tuple[Span, int]] | None:
    """Render once more with marks in place of the contents; what stands between the marks frames the answers.

    None where the rendered text is not that frame with the contents put back: the template looks into contents.
    """
    marked = [Turn(turn.role, f"\ue000{number}\ue001") for number, turn in enumerate(turns)]
    pieces = MARK.split(render(tokenizer, marked))
    frames, numbers = pieces[::2], [int(number) for number in pieces[1::2]]
    wanted = [number for number, turn in enumerate(turns) if turn.role == "assistant"]
    if [number for number in numbers if turns[number].role == "assistant"] != wanted or not text.startswith(frames[0]):
        return None
    position = len(frames[0])
    found: list[tuple[Span, int]] = []
    for number, frame in zip(numbers, frames[1:], strict=True):
        forms = (form for form in _forms(turns[number].content) if text.startswith(form + frame, position))
        form = next(forms, None)
        if form is None:
            return None
        start, position = position, position + len(form) + len(frame)
        if turns[number].role == "assistant":
            found.append(((start, start + len(form)), position))
    return found if position == len(text) else None


def _by_prefixes(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], text: str) -> list[tuple[Span, int]]:
    """Render the conversation up to each answer: where generation would begin, there the answer begins."""
    found: list[tuple[Span, int]] = []
    for number, turn in enumerate(turns):
        if turn.role != "assistant":
            continue
        prompt = render(tokenizer, turns[:number], prompt=True) if number else ""
        through = render(tokenizer, turns[: number + 1])
        form = next((form for form in _forms(turn.content) if text.startswith(prompt + form)), None)
        if form is None or not text.startswith(through):
            raise TemplateRefused(f"the answer of turn {number + 1} is not found in its place")
        found.append(((len(prompt), len(prompt) + len(form)), len(through)))
    return found


def encode(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn]) -> Sample:
    """Render, tokenise and mark; raises `TemplateRefused`."""
    text = render(tokenizer, turns)
    answers = [turn for turn in turns if turn.role == "assistant"]
    found = answer_spans(tokenizer, turns, text)
    spans = [span for span, turn in zip(found, answers, strict=True) if turn.learned]
    cuts = [] if tokenizer.is_fast else [edge for (start, end), _ in spans for edge in (start, end)]
    sample, straddled = _mark(tokenizer, text, spans, cuts)
    if straddled:
        # a token lies across the start of an answer ("\n" of the template and of the answer became one): cut the
        # text there, as it is cut between prompt and answer when the model generates
        sample, _ = _mark(tokenizer, text, spans, sorted({*cuts, *straddled}))
    return sample


def encode_row(tokenizer: PreTrainedTokenizerBase, row: Conversation) -> Sample:
    """A row of a data file: a conversation, its tools told as text, or a plain text that is learned to its end token.

    Raises `TemplateRefused`.
    """
    if row.text is None:
        return encode(tokenizer, plain(row))
    ids = list(tokenizer(row.text)["input_ids"])
    if tokenizer.eos_token_id is not None and ids[-1:] != [tokenizer.eos_token_id]:
        ids.append(tokenizer.eos_token_id)
    return Sample(ids=ids, learned=[True] * len(ids))


def _mark(
    tokenizer: PreTrainedTokenizerBase, text: str, spans: Sequence[tuple[Span, int]], cuts: Sequence[int]
) -> tuple[Sample, list[int]]:
    """Tokenise the text in the pieces that `cuts` make, and mark; also the answers' starts inside of a token."""
    ids: list[int] = []
    places: list[Span] = []
    edges = [0, *cuts, len(text)]
    for start, end in itertools.pairwise(edges):
        if start == end:
            continue
        piece = tokenizer(text[start:end], add_special_tokens=False, return_offsets_mapping=tokenizer.is_fast)
        new = list(piece["input_ids"])
        offsets = piece["offset_mapping"] if tokenizer.is_fast else [(0, end - start)] * len(new)
        ids += new
        # byte-level tokenizers leave leading white space out of a token's offsets: a token reaches back to where the
        # one before it ended
        places += [(start + a, start + b) for a, b in _close_gaps(offsets)]
    special = set(tokenizer.all_special_ids) | set(tokenizer.get_added_vocab().values())
    learned = [False] * len(ids)
    straddled: list[int] = []
    for (start, end), limit in spans:
        behind: list[int] = []
        for index, (a, b) in enumerate(places):
            if a < start < b:
                straddled.append(start)
            elif start <= a and b <= end:
                learned[index] = True
            elif end <= a and b <= limit:
                behind.append(index)
        for index in _up_to_the_end_token(behind, ids, special, [text[a:b] for a, b in (places[i] for i in behind)]):
            learned[index] = True
    return Sample(ids=ids, learned=learned), straddled


def _close_gaps(offsets: Sequence[Span]) -> list[Span]:
    closed: list[Span] = []
    last = 0
    for a, b in offsets:
        closed.append((min(a, last), b))
        last = max(last, b)
    return closed


def _up_to_the_end_token(
    behind: Sequence[int], ids: Sequence[int], special: set[int], texts: Sequence[str]
) -> Sequence[int]:
    """Of the tokens behind an answer those that end its turn: white space, if any, and the first special token.

    None at all where other text comes first: then no token ends this turn.
    """
    for count, (index, text) in enumerate(zip(behind, texts, strict=True)):
        if ids[index] in special:
            return behind[: count + 1]
        if text.strip():
            break
    return ()
