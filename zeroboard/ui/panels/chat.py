"""Ask it: a streamed answer of the tuned model, beside that of its base where wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from zeroboard.contract.requests import ChatDone, ChatFailed, ChatToken, Message
from zeroboard.errors import NotFound, UsageError
from zeroboard.services import results
from zeroboard.ui.controls import Number
from zeroboard.ui.desk import Desk
from zeroboard.ui.views.markup import tag
from zeroboard.ui.wiring import Changes

MOST_TOKENS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPanel:
    """The components."""

    status: gr.HTML
    base: gr.Chatbot
    base_side: gr.Column
    tuned: gr.Chatbot
    question: gr.Textbox
    send: gr.Button
    stop: gr.Button
    clear: gr.Button
    unload: gr.Button
    compare: gr.Checkbox
    tokens: gr.Number
    temperature: gr.Number
    turns: gr.State
    """What was said, `(role, words)`, with the tuned model's answers."""
    base_turns: gr.State
    """The same with the base's answers, for the picture alone."""


Turns = Sequence[tuple[str, str]]


def build(desk: Desk) -> ChatPanel:
    """The components."""
    with gr.Column(elem_classes=["zb-card", "zb-chat"]):
        status = gr.HTML(_status(desk, "idle"), elem_id="zb-chat-status")
        with gr.Row(equal_height=True):
            with gr.Column(visible=False, min_width=280) as base_side:
                gr.HTML(str(tag("h3", desk.say("ui.chat.base"))))
                base = gr.Chatbot(label=desk.say("ui.chat.base"), elem_id="zb-chat-base", **_look(desk))
            with gr.Column(min_width=280):
                gr.HTML(str(tag("h3", desk.say("ui.chat.tuned"))))
                tuned = gr.Chatbot(label=desk.say("ui.chat.tuned"), elem_id="zb-chat-tuned", **_look(desk))
        with gr.Row(elem_classes=["zb-ask-row"]):
            question = gr.Textbox(
                label=desk.say("ui.chat.question"), placeholder=desk.say("ui.chat.placeholder"), lines=1, max_lines=6,
                scale=6, elem_id="zb-question",
            )  # fmt: skip
            send = gr.Button(desk.say("ui.button.ask"), variant="primary", scale=1, min_width=96, elem_id="zb-send")
            stop = gr.Button(desk.say("ui.button.stop-answer"), scale=1, min_width=96, elem_id="zb-stop-answer")
        with gr.Row(elem_classes=["zb-grid"]):
            compare = gr.Checkbox(
                label=desk.say("ui.chat.compare.label"), info=desk.say("ui.chat.compare.hint"), elem_id="zb-compare",
                elem_classes=["zb-field"],
            )  # fmt: skip
            tokens = Number(
                value=128, step=16, label=desk.say("ui.chat.tokens.label"),
                info=desk.say("ui.chat.tokens.hint", most=MOST_TOKENS), elem_id="zb-tokens", elem_classes=["zb-field"],
            )  # fmt: skip
            temperature = Number(
                value=0, step=0.1, label=desk.say("ui.chat.temperature.label"),
                info=desk.say("ui.chat.temperature.hint"), elem_id="zb-temperature", elem_classes=["zb-field"],
            )  # fmt: skip
        with gr.Row(elem_classes=["zb-actions"]):
            clear = gr.Button(desk.say("ui.button.clear"), size="sm", scale=0, min_width=140, elem_id="zb-clear")
            unload = gr.Button(desk.say("ui.button.unload"), size="sm", scale=0, min_width=180, elem_id="zb-unload")
    return ChatPanel(
        status=status, base=base, base_side=base_side, tuned=tuned, question=question, send=send, stop=stop,
        clear=clear, unload=unload, compare=compare, tokens=tokens, temperature=temperature, turns=gr.State([]),
        base_turns=gr.State([]),
    )  # fmt: skip


def _look(desk: Desk) -> dict[str, Any]:
    return {
        "height": 280,
        "show_label": False,
        "buttons": ["copy"],
        "feedback_options": None,
        "placeholder": f'<p class="zb-note">{desk.say("ui.chat.empty")}</p>',
    }


def _status(desk: Desk, state: str, **params: object) -> str:
    return str(
        tag(
            "div",
            tag("h3", desk.say("ui.chat.title")),
            tag("span", desk.say(f"ui.chat.status.{state}", **params), class_="dim", role="status"),
            class_="zb-title",
        )
    )


def wire(desk: Desk, panel: ChatPanel, outputs: Any) -> None:
    """Handlers and wiring."""
    chats = desk.shared.chats

    def _owner(request: gr.Request) -> str:
        return request.session_hash or ""

    def ask(
        run_id: str | None,
        question: str,
        compare: bool,
        tokens: Any,
        temperature: Any,
        turns: Turns,
        base_turns: Turns,
        request: gr.Request,
    ) -> Iterator[Changes]:
        """Streams the answer; belongs to the click."""
        if not question or not question.strip():
            raise UsageError("ui.chat.no-question")
        most, heat = _settings(tokens, temperature)
        output = next((o for o in results.outputs(desk.paths) if o.run_id == run_id), None)
        if output is None:
            raise NotFound("error.no-result", run=run_id or "")
        said = [*turns, ("user", question.strip())]
        base_said = [*base_turns, ("user", question.strip())]
        if chats.held(_owner(request)) != str(output.folder):
            said, base_said = said[-1:], base_said[-1:]  # another model: another conversation
        answers = {"base": "", "tuned": ""}
        yield {
            panel.question: "",
            panel.tuned: _bubbles(said),
            panel.base: _bubbles(base_said),
            panel.status: _status(desk, "loading"),
        }
        chat = chats.get(_owner(request), str(output.folder), output.base)
        yield {panel.status: _status(desk, "answering")}
        messages = tuple(Message(role=role, content=words) for role, words in said)
        told = ""
        for line in chat.ask(messages, compare=bool(compare), max_new_tokens=most, temperature=heat):
            if isinstance(line, ChatToken):
                answers[line.which] += line.text
                side, past = (panel.base, base_said) if line.which == "base" else (panel.tuned, said)
                yield {side: _bubbles([*past, ("assistant", answers[line.which])])}
            elif isinstance(line, ChatDone):
                if not line.tokens:  # said, so that silence is not taken for a fault of the page
                    side, past = (panel.base, base_said) if line.which == "base" else (panel.tuned, said)
                    yield {side: _bubbles([*past, ("assistant", desk.say("ui.chat.silent"))])}
                told = _status(
                    desk,
                    "done",
                    tokens=line.tokens,
                    seconds=f"{line.seconds:.1f}",
                    end=desk.say(f"ui.chat.end.{line.end}"),
                )
            elif isinstance(line, ChatFailed):
                yield {panel.status: _status(desk, "failed", why=desk.say(line.says, **line.params))}
                return
        yield {
            panel.status: told or _status(desk, "idle"),
            panel.turns: [*said, ("assistant", answers["tuned"])],
            panel.base_turns: [*base_said, ("assistant", answers["base"])] if compare else [*base_said],
        }

    def stop_answer(request: gr.Request) -> Changes:
        chats.stop(_owner(request))
        return {}

    def clear_chat() -> Changes:
        return {
            panel.turns: [],
            panel.base_turns: [],
            panel.tuned: [],
            panel.base: [],
            panel.status: _status(desk, "idle"),
        }

    def unload_model(request: gr.Request) -> Changes:
        chats.close(_owner(request))
        return {panel.status: _status(desk, "unloaded")}

    def show_compare(compare: bool) -> Changes:
        return {panel.base_side: gr.update(visible=bool(compare))}

    asked = [outputs, panel.question, panel.compare, panel.tokens, panel.temperature, panel.turns, panel.base_turns]
    shown = [panel.question, panel.tuned, panel.base, panel.status, panel.turns, panel.base_turns]
    desk.wire.on([panel.send.click, panel.question.submit], ask, inputs=asked, outputs=shown)
    desk.wire.on(panel.stop.click, stop_answer)
    desk.wire.on(panel.clear.click, clear_chat, outputs=shown)
    desk.wire.on(panel.unload.click, unload_model, outputs=[panel.status])
    desk.wire.on(panel.compare.change, show_compare, inputs=[panel.compare], outputs=[panel.base_side])


def _bubbles(turns: Turns) -> list[dict[str, str]]:
    return [{"role": role, "content": words} for role, words in turns]


def _settings(tokens: Any, temperature: Any) -> tuple[int, float]:
    """Sampling settings, judged; raises `UsageError`."""
    if not isinstance(tokens, (int, float)) or tokens != int(tokens) or not 1 <= tokens <= MOST_TOKENS:
        raise UsageError("ui.chat.bad-tokens", most=MOST_TOKENS)
    if not isinstance(temperature, (int, float)) or not 0 <= temperature <= 5:
        raise UsageError("ui.chat.bad-temperature")
    return int(tokens), float(temperature)
