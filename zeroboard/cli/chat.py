"""`zeroboard chat PATH|RUN [--base M] [-m PROMPT] [--compare]`: talk to a model."""

from __future__ import annotations

import argparse
from typing import Any

from zeroboard.chat.session import ChatSession
from zeroboard.cli.face import Face
from zeroboard.contract.requests import ChatDone, ChatFailed, ChatToken, Message
from zeroboard.errors import UsageError
from zeroboard.messages import Language, say, visible
from zeroboard.services import results


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("path", metavar="PATH", help=say("cli.option.path", language))
    parser.add_argument("--base", metavar="DIR", help=say("cli.option.base", language))
    parser.add_argument("-m", "--message", metavar="PROMPT", help=say("cli.chat.message", language))
    parser.add_argument("--compare", action="store_true", help=say("cli.chat.compare", language))
    parser.add_argument("--max-new-tokens", type=int, default=256, metavar="N", help=say("cli.chat.tokens", language))
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help=say("cli.chat.heat", language))
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help=say("cli.chat.top-p", language))
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=say("cli.chat.seed", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    if face.json and asked.message is None:
        raise UsageError("cli.chat.json-needs-message")
    place = results.place(face.paths, asked.path, asked.base)
    face.progress(face.say("cli.chat.loading"))
    log = face.paths.logs / "chat.log"
    session = results.open_chat(face.paths, place.path, place.base, trusted=place.trusted, log_to=log)
    try:
        face.clear()
        if session.ready.unfit:
            face.note(face.say("chat.unfit", count=session.ready.unfit))
        if asked.message is not None:
            answer = _ask(face, session, asked, [Message(role="user", content=asked.message)], quiet=face.json)
            if face.json:
                face.print_json({"path": str(place.path), "prompt": asked.message, **answer})
            return 1 if answer["problem"] else 0
        return _talk(face, session, asked)
    finally:
        session.close()


def _talk(face: Face, session: ChatSession, asked: argparse.Namespace) -> int:
    """Question after question until the end of the input; an empty line is none."""
    face.note(face.say("cli.chat.hint"))
    messages: list[Message] = []
    while True:
        try:
            line = input("> ")
        except EOFError:
            face.print()
            return 0
        if not line.strip():
            continue
        messages.append(Message(role="user", content=line))
        answer = _ask(face, session, asked, messages, quiet=False)
        if answer["problem"]:
            messages.pop()
        else:
            told = answer["answers"]
            messages.append(Message(role="assistant", content=told.get("tuned") or told.get("base") or ""))


def _ask(
    face: Face, session: ChatSession, asked: argparse.Namespace, messages: list[Message], *, quiet: bool
) -> dict[str, Any]:
    """Ask, show the answer as it comes, and return it."""
    answers: dict[str, str] = {}
    facts: dict[str, dict[str, Any]] = {}
    problem: str | None = None
    for piece in session.ask(
        tuple(messages),
        compare=asked.compare,
        max_new_tokens=asked.max_new_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        seed=asked.seed,
    ):
        match piece:
            case ChatToken():
                if not quiet:
                    if asked.compare and piece.which not in answers:
                        face.write(face.colour(face.say(f"cli.chat.{piece.which}"), "bold") + "\n")
                    face.write(visible(piece.text))
                answers[piece.which] = answers.get(piece.which, "") + piece.text
            case ChatDone():
                answers.setdefault(piece.which, "")
                facts[piece.which] = {"tokens": piece.tokens, "seconds": piece.seconds, "end": piece.end}
                if not quiet:
                    face.print()
            case ChatFailed():
                problem = face.say(piece.says, **piece.params)
                face.note(problem)
    return {"answers": answers, "facts": facts, "problem": problem}
