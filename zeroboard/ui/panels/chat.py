"""Ask it: a streamed answer of the tuned model, beside that of its base where there is one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from zeroboard.contract.prompts import MOST, read_prompts, write_prompts
from zeroboard.contract.requests import (
    ChatDone,
    ChatFailed,
    ChatPrompt,
    ChatReady,
    ChatToken,
    Message,
    Progress,
)
from zeroboard.errors import UsageError, ZeroBoardError
from zeroboard.services import results
from zeroboard.services.results import Output
from zeroboard.ui.chats import Question
from zeroboard.ui.controls import Choice, Number
from zeroboard.ui.desk import Desk
from zeroboard.ui.views import chat as view
from zeroboard.ui.views.markup import tag
from zeroboard.ui.wiring import Changes, html, notice

MOST_TOKENS = 2048
MOST_SEED = 2**32 - 1
EVERY = 0.08
"""Seconds between two updates of an answer: faster than an eye reads, slow enough for a phone."""
SIDES = ("base", "tuned")

Turns = tuple[tuple[str, str], ...]
"""`(role, words)`, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPanel:
    """The components."""

    status: gr.HTML
    mode: gr.Radio
    chats: Mapping[str, gr.Chatbot]
    """Side → what was said."""
    figures: Mapping[str, gr.HTML]
    title: gr.HTML
    """Over the answer of what is chosen."""
    base_side: gr.Column
    question: gr.Textbox
    send: gr.Button
    stop: gr.Button
    clear: gr.Button
    unload: gr.Button
    compare: gr.Checkbox
    settings: tuple[Any, ...]
    """Tokens, temperature, top-p, seed."""
    prompt: gr.HTML
    saved: gr.Accordion
    prompts: gr.Textbox
    """Asked after each run, one a line."""
    keep: gr.Button
    said: gr.State
    """`Said`: the conversation of this browser."""


@dataclass(frozen=True, slots=True)
class Said:
    """A conversation with one output."""

    about: str = ""
    turns: Mapping[str, Turns] = field(default_factory=lambda: dict.fromkeys(SIDES, ()))
    """Side → what was said there."""


def build(desk: Desk) -> ChatPanel:
    """The components."""
    say = desk.say
    with gr.Column(elem_classes=["zb-card", "zb-chat"]):
        status = gr.HTML(html(view.status(desk.lang, "idle")), elem_id="zb-chat-status", min_height=24)
        with gr.Row(equal_height=True):
            with gr.Column(min_width=280, elem_classes=["zb-answer"]) as base_side:
                gr.HTML(html(tag("h3", say("ui.chat.base"))))
                base = gr.Chatbot(label=say("ui.chat.base"), elem_id="zb-chat-base", **_look(desk))
                base_figures = gr.HTML(elem_id="zb-figures-base", min_height=20)
            with gr.Column(min_width=280, elem_classes=["zb-answer"]):
                title = gr.HTML(html(tag("h3", say("ui.chat.tuned"))))
                tuned = gr.Chatbot(label=say("ui.chat.tuned"), elem_id="zb-chat-tuned", **_look(desk))
                tuned_figures = gr.HTML(elem_id="zb-figures-tuned", min_height=20)
        with gr.Row(elem_classes=["zb-ask-row"]):
            question = gr.Textbox(
                label=say("ui.chat.question"), placeholder=say("ui.chat.placeholder"), lines=1, max_lines=6,
                scale=6, elem_id="zb-question",
            )  # fmt: skip
            send = gr.Button(say("ui.button.ask"), variant="primary", scale=1, min_width=96, elem_id="zb-send")
            stop = gr.Button(
                say("ui.button.stop-answer"), scale=1, min_width=96, elem_id="zb-stop-answer", interactive=False
            )
        with gr.Row(elem_classes=["zb-pair"]):
            compare = gr.Checkbox(
                value=True, label=say("ui.chat.compare.label"), info=say("ui.chat.compare.hint"), elem_id="zb-compare",
                elem_classes=["zb-field"],
            )  # fmt: skip
            mode = Choice(
                choices=[(say("ui.chat.mode.chat"), "chat"), (say("ui.chat.mode.raw"), "raw")], value="chat",
                label=say("ui.chat.mode.label"), info=say("ui.chat.mode.hint"), elem_id="zb-chat-mode",
                elem_classes=["zb-field"],
            )  # fmt: skip
        with (
            gr.Accordion(say("ui.chat.settings"), open=False, elem_id="zb-sampling", elem_classes=["zb-advanced"]),
            gr.Row(elem_classes=["zb-grid"]),
        ):
            settings = (
                _number(desk, "tokens", 128, 16, most=MOST_TOKENS),
                _number(desk, "temperature", 0, 0.1),
                _number(desk, "top-p", 1, 0.05),
                _number(desk, "seed", 0, 1),
            )
        with gr.Accordion(say("ui.chat.prompt"), open=False, elem_id="zb-prompt-fold", elem_classes=["zb-advanced"]):
            prompt = gr.HTML(html(view.prompt(None, None, desk.lang)), elem_id="zb-prompt")
        with gr.Accordion(say("ui.chat.saved"), open=False, elem_id="zb-saved", elem_classes=["zb-advanced"]) as saved:
            prompts = gr.Textbox(
                label=say("ui.chat.saved.label"), info=say("ui.chat.saved.hint", most=MOST), lines=4, max_lines=10,
                elem_id="zb-saved-prompts", elem_classes=["zb-field"],
            )  # fmt: skip
            keep = gr.Button(say("ui.chat.saved.keep"), size="sm", scale=0, min_width=140, elem_id="zb-saved-keep")
        with gr.Row(elem_classes=["zb-actions"]):
            clear = gr.Button(say("ui.button.clear"), size="sm", scale=0, min_width=140, elem_id="zb-clear")
            unload = gr.Button(say("ui.button.unload"), size="sm", scale=0, min_width=180, elem_id="zb-unload")
    return ChatPanel(
        title=title, status=status, mode=mode, chats={"base": base, "tuned": tuned}, prompt=prompt,
        figures={"base": base_figures, "tuned": tuned_figures}, base_side=base_side, question=question, send=send,
        stop=stop, clear=clear, unload=unload, compare=compare, settings=settings, said=gr.State(Said()),
        saved=saved, prompts=prompts, keep=keep,
    )  # fmt: skip


def _number(desk: Desk, name: str, value: float, step: float, **params: object) -> Any:
    return Number(
        value=value, step=step, label=desk.say(f"ui.chat.{name}.label"),
        info=desk.say(f"ui.chat.{name}.hint", **params), elem_id=f"zb-{name}", elem_classes=["zb-field"],
    )  # fmt: skip


def _look(desk: Desk) -> dict[str, Any]:
    return {
        "height": 280,
        "show_label": False,
        "buttons": ["copy"],
        "feedback_options": None,
        "layout": "bubble",
        "allow_tags": False,  # what a model says is shown, not rendered
        "latex_delimiters": [],
        "reasoning_tags": [("<think>", "</think>")],
        "placeholder": html(tag("p", desk.say("ui.chat.empty"), class_="zb-note")),
    }


def select(desk: Desk, panel: ChatPanel, output: Output) -> Changes:
    """What follows from another output: the comparison is offered where there is something to compare with."""
    comparable = output.kind == "lora-adapter" or output.base is not None
    return {
        panel.compare: gr.update(value=comparable, interactive=comparable),
        panel.base_side: gr.update(visible=comparable),
        panel.title: html(tag("h3", desk.say("ui.chat.tuned" if comparable else "ui.chat.alone"))),
    }


def wire(desk: Desk, panel: ChatPanel, outputs: Any, find: Callable[[str | None, Any], Output], places: Any) -> None:
    """Handlers and wiring; `find` gives the output that is chosen, from the values of `outputs` and `places`."""
    chats = desk.shared.chats

    def ask(
        chosen: str | None,
        known: Any,
        mode: str,
        words: str,
        compare: bool,
        said: Said,
        tokens: Any,
        temperature: Any,
        top_p: Any,
        seed: Any,
        request: gr.Request,
    ) -> Iterator[Changes]:
        """Streams the answer; belongs to the click."""
        if not words or not words.strip():
            raise UsageError("ui.chat.no-question")
        settings = judge_settings(tokens, temperature, top_p, seed)
        output = find(chosen, known)
        raw = mode == "raw"
        past = said.turns if said.about == output.id and not raw else Said().turns
        turns = {side: (*past[side], ("user", words if raw else words.strip())) for side in SIDES}
        # both sides go on from the tuned model's answers, so that both are asked the very same
        messages = tuple(Message(role=role, content=text) for role, text in turns["tuned"])
        question = Question(messages=messages, compare=bool(compare), raw=raw, **settings)
        yield {
            **{panel.chats[side]: _bubbles(turns[side]) for side in SIDES},
            **{panel.figures[side]: "" for side in SIDES},
            panel.question: gr.skip() if raw else "",
            panel.send: gr.update(interactive=False),
            panel.stop: gr.update(interactive=True),
        }
        answers: dict[str, str] = {}
        ended: dict[Any, Any] = {panel.send: gr.update(interactive=True), panel.stop: gr.update(interactive=False)}
        try:
            owner = request.session_hash or ""
            trusted = results.trusts(desk.paths, output.run_id)
            pieces = chats.ask(owner, output.folder, output.base, question, trusted=trusted)
            for changes in _answer(desk, panel, pieces, turns, answers):
                if chats.dropped(owner):
                    pieces.close()
                    yield ended
                    return
                yield changes
        except ZeroBoardError as error:  # beside the question, where the person looks
            yield {panel.status: html(view.failed(error, desk.lang))}
        except Exception:
            yield ended
            raise
        after = {side: _after(turns[side], answers.get(side)) for side in SIDES}
        yield {**ended, panel.said: Said(output.id, after)}

    def stop_answer(request: gr.Request) -> Changes:
        chats.stop(request.session_hash or "")
        return {}

    def clear_chat(request: gr.Request) -> Changes:
        chats.drop(request.session_hash or "")
        return _cleared(desk, panel)

    def other_output(request: gr.Request) -> Changes:
        chats.drop(request.session_hash or "")
        return _cleared(desk, panel)

    def unload_model(request: gr.Request) -> Changes:
        return {panel.status: html(view.freed(chats.unload(request.session_hash or ""), desk.lang))}

    def show_compare(compare: bool) -> Changes:
        return {panel.base_side: gr.update(visible=bool(compare))}

    def show_prompts() -> Changes:
        return {panel.prompts: "\n".join(read_prompts(desk.paths))}

    def keep_prompts(text: str) -> Changes:
        kept = write_prompts(desk.paths, text or "")
        words = desk.say("ui.chat.saved.kept", n=len(kept))
        return {panel.prompts: "\n".join(kept), desk.wire.notice: notice(words, "info", desk.lang)}

    desk.wire.on(panel.saved.expand, show_prompts, outputs=[panel.prompts])
    desk.wire.on(panel.keep.click, keep_prompts, inputs=[panel.prompts], outputs=[panel.prompts])
    asked = [outputs, places, panel.mode, panel.question, panel.compare, panel.said, *panel.settings]
    talk = [*panel.chats.values(), *panel.figures.values(), panel.status, panel.said, panel.prompt]
    shown = [panel.question, panel.send, panel.stop, *talk]
    desk.wire.on([panel.send.click, panel.question.submit], ask, inputs=asked, outputs=shown)
    desk.wire.on(panel.stop.click, stop_answer)
    desk.wire.on(panel.clear.click, clear_chat, outputs=talk)
    desk.wire.on(outputs.change, other_output, outputs=talk)
    desk.wire.on(panel.unload.click, unload_model, outputs=[panel.status])
    desk.wire.on(panel.compare.change, show_compare, inputs=[panel.compare], outputs=[panel.base_side])


def _answer(
    desk: Desk, panel: ChatPanel, pieces: Iterator[Any], turns: Mapping[str, Turns], answers: dict[str, str]
) -> Iterator[Changes]:
    """What changes with each piece; `answers` is filled on the way. Tokens are gathered for `EVERY` seconds."""
    ready: ChatReady | None = None
    begun = time.monotonic()
    first: dict[str, float] = {}
    shown = 0.0
    for piece in pieces:
        match piece:
            case "waiting" | "left":
                yield {panel.status: html(view.status(desk.lang, piece))}
            case "loading":
                yield {panel.status: html(view.loading(desk.lang, None))}
            case Progress():
                yield {panel.status: html(view.loading(desk.lang, piece))}
            case ChatReady():
                ready, begun = piece, time.monotonic()
                yield {panel.status: html(view.status(desk.lang, "answering"))}
            case ChatPrompt():
                yield {panel.prompt: html(view.prompt(piece, ready, desk.lang))}
            case ChatToken(which=side):
                first.setdefault(side, time.monotonic() - begun)
                answers[side] = answers.get(side, "") + piece.text
                if time.monotonic() - shown >= EVERY:
                    shown = time.monotonic()
                    yield {panel.chats[side]: _bubbles([*turns[side], ("assistant", answers[side])])}
            case ChatDone(which=side):
                # an empty answer is said, so that silence is not taken for a fault of the page
                words = answers.setdefault(side, "") or desk.say("ui.chat.silent")
                unfit = ready.unfit if ready is not None and side == "tuned" else 0
                done: dict[Any, Any] = {
                    panel.chats[side]: _bubbles([*turns[side], ("assistant", words)]),
                    panel.figures[side]: html(view.figures(piece, first.get(side), desk.lang, unfit)),
                }
                if side == "tuned":
                    seconds = f"{piece.seconds:.1f}"
                    done[panel.status] = html(view.status(desk.lang, "done", tokens=piece.tokens, seconds=seconds))
                begun = time.monotonic()
                yield done
            case ChatFailed():
                yield {panel.status: html(view.refused(piece.says, dict(piece.params), desk.lang))}


def judge_settings(tokens: Any, temperature: Any, top_p: Any, seed: Any) -> dict[str, Any]:
    """Sampling settings as a `Question` takes them; raises `UsageError`."""
    if not _whole(tokens) or not 1 <= tokens <= MOST_TOKENS:
        raise UsageError("ui.chat.bad-tokens", most=MOST_TOKENS)
    if not _number_like(temperature) or not 0 <= temperature <= 5:
        raise UsageError("ui.chat.bad-temperature")
    if not _number_like(top_p) or not 0 < top_p <= 1:
        raise UsageError("ui.chat.bad-top-p")
    if not _whole(seed) or not 0 <= seed <= MOST_SEED:
        raise UsageError("ui.chat.bad-seed", most=MOST_SEED)
    return {
        "max_new_tokens": int(tokens), "temperature": float(temperature), "top_p": float(top_p), "seed": int(seed),
    }  # fmt: skip


def _number_like(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: Any) -> bool:
    return _number_like(value) and value == int(value)


def _cleared(desk: Desk, panel: ChatPanel) -> Changes:
    return {
        **{panel.chats[side]: [] for side in SIDES},
        **{panel.figures[side]: "" for side in SIDES},
        panel.status: html(view.status(desk.lang, "idle")),
        panel.said: Said(),
        panel.prompt: html(view.prompt(None, None, desk.lang)),
    }


def _after(turns: Turns, answer: str | None) -> Turns:
    """The conversation with the answer; without one, the question does not count as asked."""
    return (*turns, ("assistant", answer)) if answer is not None else turns[:-1]


def _bubbles(turns: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": words} for role, words in turns]
