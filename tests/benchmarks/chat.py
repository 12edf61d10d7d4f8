"""The first token of the chat on the bundled model, through the service that the page asks, against plain `generate`.

    python -m tests.benchmarks.chat [CACHE]      prints ratios; converts the model first where CACHE has none

Asked are the model alone and an adapter on it, the latter with the base beside it, as the page does: the base's first
token is then the first. Counted is the time from the question to the first piece of text, the engine's pipes and our
threads included. A short question has to keep the limit, the very first one after loading and the median of the later
ones. A long one is computed for as long as its prompt is, so only its ratio is told. Plain `transformers` answers the
same rendered prompt with one token in a process of its own and the same environment, in turns with ours. Not counted:
drawing in the browser, and loading.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.engine.results import make_adapter
from zeroboard.catalogue import MODELS
from zeroboard.contract.requests import ChatPrompt, ChatReady, ChatToken, Message
from zeroboard.paths import HOME, Paths
from zeroboard.runs.verbs import environment
from zeroboard.services.models import prepare_model
from zeroboard.ui.chats import Chats, Question

LIMIT = 0.5
"""Seconds that are promised, once the model is loaded."""
TIMES = 9
"""Questions of each kind."""
LONG = 12
"""Sentences of the long question."""

PEER = """
import json, sys, time
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
print("ready", flush=True)
for line in sys.stdin:
    clock = time.monotonic()
    ids = tokenizer(json.loads(line), add_special_tokens=False, return_tensors="pt")
    with torch.inference_mode():
        out = model.generate(**ids, max_new_tokens=1, do_sample=False)
    text = tokenizer.decode(out[0, ids["input_ids"].shape[1]:])
    print(json.dumps({"seconds": time.monotonic() - clock, "tokens": ids["input_ids"].shape[1]}), flush=True)
"""


@dataclass
class Seen:
    """Seconds to the first token, question by question."""

    words: str
    short: bool
    tokens: int = 0
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    def told(self) -> str:
        ours, theirs = self.ours[1:], self.theirs[1:]
        first = f"first question {self.ours[0]:.3f} s (generate {self.theirs[0]:.3f})"
        mine, other = statistics.median(ours), statistics.median(theirs)
        return (
            f"{self.words}, {self.tokens} tokens\n  {first}\n  later: median {mine:.3f}, worst {max(ours):.3f} s "
            f"(generate {other:.3f}, {max(theirs):.3f})   ratio of the medians {mine / other:.2f}"
        )

    @property
    def counted(self) -> float:
        """What has to keep the limit."""
        return max(self.ours[0], statistics.median(self.ours[1:]))


class Peer:
    """Plain `transformers`, loaded and waiting."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._asked: IO[str] = process.stdin
        self._said: IO[str] = process.stdout
        assert self._said.readline() == "ready\n"

    def ask(self, prompt: str) -> tuple[float, int]:
        """(seconds, tokens of the prompt)"""
        self._asked.write(json.dumps(prompt) + "\n")
        self._asked.flush()
        found = json.loads(self._said.readline())
        return float(found["seconds"]), int(found["tokens"])


@contextmanager
def peer(model: Path) -> Iterator[Peer]:
    argv = [sys.executable, "-W", "ignore", "-c", PEER, str(model)]
    with subprocess.Popen(
        argv, cwd=HOME, env=environment(None), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        try:
            yield Peer(process)
        finally:
            process.terminate()


def question(number: int, *, long: bool, compare: bool) -> Question:
    """Never the same twice, so that nothing could be remembered."""
    words = f"Question {number}: what does ZeRO stage three shard?"
    if long:
        words = " ".join(f"{words} And how much memory does it save on {at} GPUs?" for at in range(LONG))
    return Question(
        messages=(Message(role="user", content=words),),
        compare=compare, raw=False, max_new_tokens=4, temperature=0.0, top_p=1.0, seed=0,
    )  # fmt: skip


def ask(chats: Chats, folder: Path, base: Path | None, asked: Question) -> tuple[float, ChatPrompt]:
    """Seconds from the question (where the model has to be loaded: from then on) to the first piece of text."""
    since, first, loading, prompt = time.monotonic(), None, False, None
    for piece in chats.ask("benchmark", folder, base, asked):
        match piece:
            case "loading":
                loading = True
            case ChatReady() if loading:
                since = time.monotonic()
            case ChatPrompt():
                prompt = piece
            case ChatToken() if first is None:
                first = time.monotonic()
    assert first is not None and prompt is not None, "there was no answer"
    return first - since, prompt


def measure(paths: Paths, folder: Path, base: Path | None, words: str) -> list[Seen]:
    """Short and long questions in turn, to a model that is loaded for the first of them."""
    seen = [Seen(f"{words}, a short question", True), Seen(f"{words}, a long one", False)]
    chats = Chats(paths)
    try:
        with peer(base or folder) as plain:
            for number in range(TIMES):
                for found in seen:
                    asked = question(number, long=not found.short, compare=base is not None)
                    seconds, prompt = ask(chats, folder, base, asked)
                    theirs, tokens = plain.ask(prompt.text)
                    assert tokens == prompt.tokens, "these are not the same prompt"
                    found.tokens = tokens
                    found.ours.append(seconds)
                    found.theirs.append(theirs)
    finally:
        chats.close_all()
    return seen


def main(arguments: list[str]) -> int:
    """Print what was measured; 1 where the promise is broken."""
    with tempfile.TemporaryDirectory(prefix="zb-chat-") as place:
        paths = Paths(Path(arguments[0] if arguments else place).absolute())
        model = prepare_model(paths, MODELS[0].name)
        adapter = make_adapter(Path(place) / "adapter", model)
        seen = measure(paths, model, None, "the model") + measure(paths, adapter, model, "an adapter on it, compared")
    for found in seen:
        print(found.told())
    worst = max(found.counted for found in seen if found.short)
    print(f"load of the machine meanwhile: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"ratio of the slowest that counts to the limit of {LIMIT} s: {worst / LIMIT:.2f}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
