"""From text to tokens, of which those that the assistant says are marked as learned.

Learned is decided by *position*: a token is learned when it lies in an answer or in what the template writes after it,
up to the token that ends the turn. Ids are never compared, so padding may equal the end token.

Covered: an end token preceded by white space; answers that begin or end with what a tokenizer would merge with the
template's text (cut there, as it is cut between prompt and answer when the model generates); slow tokenizers. Refused:
a template that ends earlier answers with a token, and the last one with none.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tokenizers import Encoding
from transformers import PreTrainedTokenizerBase

from zeroboard.data.conversations import Conversation, Turn
from zeroboard.data.folding import plain
from zeroboard.engine.rendering import Rendered, TemplateRefused, place

Encoded = tuple[list[int], list[int]]
"""The ids of a text, and for each the character at which it ends."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One conversation as tokens."""

    ids: list[int]
    learned: bytearray
    """For each token 1 where it is learned, else 0."""
    unended: int = 0
    """Answers that no token ends."""
    folded: bool = False
    """The template has no place for the system turn, which became a part of the first question."""


def end_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The ids that end an answer in this tokenizer's template: what generation has to stop at. Empty: none found."""
    try:
        sample = encode(tokenizer, [Turn("user", "a"), Turn("assistant", "a")])
    except TemplateRefused:
        return ()
    last = [token for token, learned in zip(sample.ids, sample.learned, strict=True) if learned][-1:]
    return tuple(token for token in last if token in special_ids(tokenizer, len(tokenizer)))


def encode(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn]) -> Sample:
    """Render, tokenise and mark; raises `TemplateRefused`."""
    return _raised(_encoded(tokenizer, [place(tokenizer, turns)])[0])


def encode_row(tokenizer: PreTrainedTokenizerBase, row: Conversation) -> Sample:
    """A row of a data file: a conversation, its tools told as text, or a plain text that is learned to its end token.

    Raises `TemplateRefused`.
    """
    return _raised(encode_rows(tokenizer, [row])[0])


def _raised(made: Sample | TemplateRefused) -> Sample:
    if isinstance(made, TemplateRefused):
        raise made
    return made


def encode_rows(tokenizer: PreTrainedTokenizerBase, rows: Sequence[Conversation]) -> list[Sample | TemplateRefused]:
    """As `encode_row`, for many at once; a row that the template refuses has its reason in its place."""
    placed = [_placed(tokenizer, row) for row in rows]
    made = iter(_encoded(tokenizer, [one for one in placed if isinstance(one, Rendered)]))
    texts = iter(_texts(tokenizer, [one for one in placed if isinstance(one, str)]))
    return [
        one if isinstance(one, TemplateRefused) else next(texts) if isinstance(one, str) else next(made)
        for one in placed
    ]


def _placed(tokenizer: PreTrainedTokenizerBase, row: Conversation) -> Rendered | str | TemplateRefused:
    if row.text is not None:
        return row.text
    try:
        return place(tokenizer, plain(row))
    except TemplateRefused as refused:
        return refused


def _texts(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> Iterable[Sample]:
    if not texts:
        return
    for found in tokenizer(texts)["input_ids"]:
        ids = list(found)
        if tokenizer.eos_token_id is not None and ids[-1:] != [tokenizer.eos_token_id]:
            ids.append(tokenizer.eos_token_id)
        yield Sample(ids=ids, learned=bytearray(b"\1") * len(ids))


def _encoded(tokenizer: PreTrainedTokenizerBase, rendered: Sequence[Rendered]) -> list[Sample | TemplateRefused]:
    texts = [one.text for one in rendered]
    if not texts or not tokenizer.is_fast:
        found = _tokens(tokenizer, texts)
        return [_marked(tokenizer, one, own) for one, own in zip(rendered, found, strict=True)]
    special = special_ids(tokenizer, len(tokenizer))
    encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    return [
        _quick(one, encoding, special) or _marked(tokenizer, one, _ends(encoding))
        for one, encoding in zip(rendered, encodings, strict=True)
    ]


def _quick(one: Rendered, encoding: Encoding, special: frozenset[int]) -> Sample | None:
    """Mark the usual case without looking at every token: answers begin and end with one, a special token follows.

    None where it is another case.
    """
    ids = encoding.ids
    learned = bytearray(len(ids))
    for (start, end), _ in one.answers:
        first, closing = encoding.char_to_token(start), encoding.char_to_token(end)
        if first is None or closing is None or ids[closing] not in special:
            return None
        if _end(encoding, first - 1) != start or _end(encoding, closing - 1) != end:
            return None
        learned[first : closing + 1] = b"\1" * (closing + 1 - first)
    return Sample(ids=ids, learned=learned, folded=one.folded)


def _end(encoding: Encoding, token: int) -> int:
    """Where a token ends in the text, in characters; 0 before the first."""
    place = encoding.token_to_chars(token) if token >= 0 else None
    return 0 if place is None else place[1]


def _ends(encoding: Encoding) -> Encoded:
    # the tokens of a text go forward; those of one character that takes several end at the same place
    return encoding.ids, list(itertools.accumulate((end for _, end in encoding.offsets), max))


def _tokens(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[Encoded]:
    """The tokens of whole texts; a slow tokenizer tells no places, so that each token seems to end with its text."""
    if not texts:
        return []
    if not tokenizer.is_fast:
        return [(list(found), [len(text)] * len(found)) for text, found in zip(texts, (
            tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts), strict=True)]  # fmt: skip
    return [_ends(one) for one in tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)]


def _marked(tokenizer: PreTrainedTokenizerBase, one: Rendered, found: Encoded) -> Sample | TemplateRefused:
    """Mark the answers; where a token lies across an edge of one, cut the text there and mark once more."""
    special = special_ids(tokenizer, len(tokenizer))
    edges = [edge for span, _ in one.answers for edge in span]
    cuts = edges if not tokenizer.is_fast else _straddled(one, found, special)
    if cuts:
        found = _cut(tokenizer, one.text, sorted(set(cuts)))
    ids, ends = found
    learned = bytearray(len(ids))
    unended = 0
    for (start, end), limit in one.answers:
        first, last = bisect_right(ends, start), bisect_right(ends, end)
        closing = _closing(one.text, ids, ends, end, limit, special)
        unended += closing is None
        last = last if closing is None else closing + 1
        learned[first:last] = b"\1" * (last - first)
    if 0 < unended < len(one.answers) or (unended and ends_turns(tokenizer, str(tokenizer.chat_template))):
        return TemplateRefused(
            "the template ends an answer with a token within a conversation, and with none at its end"
        )
    return Sample(ids=ids, learned=learned, unended=unended, folded=one.folded)


def _straddled(one: Rendered, found: Encoded, special: frozenset[int]) -> list[int]:
    """The edges of answers that lie within a token."""
    ids, ends = found
    cuts = []
    for (start, end), limit in one.answers:
        edge = bisect_left(ends, start)
        if start and (edge == len(ends) or ends[edge] != start):
            cuts.append(start)
        edge = bisect_left(ends, end)
        inside = edge == len(ends) or ends[edge] != end
        # white space behind an answer may be of its last token: it is learned with the end token
        if inside and _closing(one.text, ids, ends, end, limit, special) is None:
            cuts.append(end)
    return cuts


def _cut(tokenizer: PreTrainedTokenizerBase, text: str, cuts: Sequence[int]) -> Encoded:
    """Tokenise the text in the pieces that `cuts` make."""
    ids: list[int] = []
    ends: list[int] = []
    edges = (0, *cuts, len(text))
    pairs = [(start, end) for start, end in itertools.pairwise(edges) if start < end]
    for (start, _), (new, places) in zip(pairs, _tokens(tokenizer, [text[a:b] for a, b in pairs]), strict=True):
        ids += new
        ends += [start + place for place in places]
    return ids, ends


def _closing(
    text: str, ids: Sequence[int], ends: Sequence[int], end: int, limit: int, special: frozenset[int]
) -> int | None:
    """The token that ends the turn of an answer that ends at `end`: the first special one, behind white space at most.

    None where other text comes first, or the turn is over: then no token ends this answer.
    """
    for index in range(bisect_right(ends, end), len(ids)):
        if ends[index] > limit:
            return None
        if ids[index] in special:
            return index
        if text[end : ends[index]].strip():
            return None
    return None


@lru_cache(maxsize=64)
def special_ids(tokenizer: PreTrainedTokenizerBase, size: int) -> frozenset[int]:
    """The tokens that stand for no text. `size`: of the vocabulary, which may grow."""
    return frozenset(tokenizer.all_special_ids) | frozenset(tokenizer.get_added_vocab().values())


@lru_cache(maxsize=64)
def ends_turns(tokenizer: PreTrainedTokenizerBase, template: str) -> bool:
    """Whether the template ends an answer with a token where a question follows it."""
    turns = (Turn("user", "a"), Turn("assistant", "a"), Turn("user", "a"), Turn("assistant", "a"))
    try:
        one = place(tokenizer, turns)
    except TemplateRefused:
        return False
    (ids, ends), special = _tokens(tokenizer, [one.text])[0], special_ids(tokenizer, len(tokenizer))
    (_, end), limit = one.answers[0]
    return _closing(one.text, ids, ends, end, limit, special) is not None
