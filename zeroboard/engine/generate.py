"""Asking a model: rendering a conversation, end tokens, one token after the other, text without half characters.

The loop is ours and not `generate`: what `temperature` 0 means must not depend on a model's own generation settings
(penalties, top-k), and an answer has to stop between any two tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from transformers import PreTrainedTokenizerBase

from zeroboard.contract.problems import Scalar
from zeroboard.contract.requests import Message
from zeroboard.data.conversations import Turn
from zeroboard.engine.marking import end_tokens
from zeroboard.engine.rendering import TemplateRefused, render

End = Literal["end-token", "length", "stopped"]


class CannotAsk(Exception):
    """This conversation cannot be asked; `says` and `params` make the sentence."""

    def __init__(self, says: str, **params: Scalar) -> None:
        self.says = says
        self.params = params
        super().__init__(f"{says} {params}")


def prompt_tokens(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], *, raw: bool = False) -> list[int]:
    """The conversation's tokens, with the opening of the assistant's turn; `raw`: those of the last message's text
    alone, begun as the tokenizer begins a text. Raises `CannotAsk`."""
    if raw:
        text = messages[-1].content if messages else ""
        return _some(tokenizer(text)["input_ids"] if text else [])
    turns = [Turn(message.role, message.content) for message in messages]
    try:
        text = render(tokenizer, turns, prompt=True)
    except TemplateRefused as error:
        raise CannotAsk("chat.template-refused", why=str(error)[:300]) from error
    return _some(tokenizer(text, add_special_tokens=False)["input_ids"])


def _some(ids: Sequence[int]) -> list[int]:
    if not ids:
        raise CannotAsk("chat.empty-prompt")
    return list(ids)


def stop_tokens(tokenizer: PreTrainedTokenizerBase, model: Any, *, raw: bool = False) -> frozenset[int]:
    """Tokens that end an answer: the tokenizer's, those of the generation settings, and (not with `raw`) what the
    template writes after an answer."""
    found = set() if raw else set(end_tokens(tokenizer))
    known: Any
    for known in (tokenizer.eos_token_id, getattr(model.generation_config, "eos_token_id", None)):
        found.update(int(token) for token in (known if isinstance(known, list) else [known]) if token is not None)
    return frozenset(found)


def context_length(model: Any) -> int | None:
    """The most tokens that the model was made for; None where its config does not say."""
    config = model.config.get_text_config()
    length = getattr(config, "max_position_embeddings", None)
    return length if isinstance(length, int) and length > 0 else None


def generate(
    model: Any,
    ids: Sequence[int],
    *,
    stops: frozenset[int],
    max_new_tokens: int,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
    on_token: Callable[[int], None],
    stopped: Callable[[], bool] = lambda: False,
) -> End:
    """Continue `ids`; each new token but the one that ends the answer goes to `on_token`. Returns why it ended.

    Raises `CannotAsk` where the prompt fills the model's context.
    """
    limit = context_length(model)
    if limit is not None:
        if len(ids) >= limit:
            raise CannotAsk("chat.prompt-too-long", tokens=len(ids), limit=limit)
        max_new_tokens = min(max_new_tokens, limit - len(ids))
    device = model.device
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    accepted = inspect.signature(inner.forward).parameters
    options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
    held = "cache" if "cache" in accepted else "past_key_values"  # renamed in transformers 5.24
    randomness = torch.Generator(device=device).manual_seed(seed)
    known = list(ids)
    fresh, cache = known, None
    for _ in range(max_new_tokens):
        if stopped():
            return "stopped"
        with torch.inference_mode():
            out = model(input_ids=torch.tensor([fresh], device=device), use_cache=True, **{held: cache}, **options)
            token = _choose(out.logits[0, -1].float(), temperature, top_p, randomness)
        if token in stops:
            return "end-token"
        on_token(token)
        known.append(token)
        cache = getattr(out, held, None)
        fresh = [token] if cache is not None else known
    return "length"


def _choose(logits: torch.Tensor, temperature: float, top_p: float, randomness: torch.Generator) -> int:
    if temperature <= 0:
        return int(logits.argmax())
    shares = torch.softmax(logits / temperature, dim=-1)
    if top_p < 1:
        ordered, places = shares.sort(descending=True)
        before = ordered.cumsum(-1) - ordered  # the likeliest one is always kept
        shares = torch.zeros_like(shares).scatter(-1, places, ordered.masked_fill(before >= top_p, 0.0))
    return int(torch.multinomial(shares, 1, generator=randomness))


class Pieces:
    """Turns tokens into pieces of text; a character that is not whole yet waits for its other bytes."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._prefix = 0
        """Decoding starts here: some tokenizers write the first token of a text differently."""
        self._read = 0
        """Text up to here was given out."""

    def push(self, token: int) -> str:
        """The text that the token completes; empty while a character is unfinished."""
        self._ids.append(token)
        old, new = self._decode()
        if len(new) <= len(old) or new.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""
        self._prefix, self._read = self._read, len(self._ids)
        return new[len(old) :]

    def rest(self) -> str:
        """What is left at the end of an answer, without the bytes of an unfinished character."""
        old, new = self._decode()
        self._prefix, self._read = self._read, len(self._ids)
        return new[len(old) :].rstrip("\N{REPLACEMENT CHARACTER}")

    def _decode(self) -> tuple[str, str]:
        def text(ids: list[int]) -> str:
            return str(self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

        return text(self._ids[self._prefix : self._read]), text(self._ids[self._prefix :])
