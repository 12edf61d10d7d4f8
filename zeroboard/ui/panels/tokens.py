"""In the data card: the file tokenised with the chosen model, and any row of it in colour."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from zeroboard.contract.spec import RunSpec
from zeroboard.errors import ZeroBoardError
from zeroboard.messages import Language, say
from zeroboard.services import tokens
from zeroboard.ui.desk import Desk
from zeroboard.ui.views import tokens as view
from zeroboard.ui.views.markup import tag
from zeroboard.ui.wiring import Changes, html


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensPanel:
    """The components."""

    button: gr.Button
    row: gr.Number
    ids: gr.Checkbox
    facts: gr.HTML
    sample: gr.HTML


def build(lang: Language) -> TokensPanel:
    """The button, and what it shows."""
    facts = gr.HTML(elem_id="zb-token-facts")
    with gr.Row(elem_classes=["zb-look"]):
        button = gr.Button(say("ui.tokens.button", lang), size="sm", elem_id="zb-tokenise", scale=0, min_width=200)
        row = gr.Number(1, label=say("ui.tokens.row", lang), minimum=1, precision=0, elem_id="zb-row", min_width=96)
        ids = gr.Checkbox(False, label=say("ui.tokens.ids", lang), elem_id="zb-ids", min_width=120)
    sample = gr.HTML(elem_id="zb-sample")
    return TokensPanel(button=button, row=row, ids=ids, facts=facts, sample=sample)


def known(desk: Desk, spec: RunSpec) -> str:
    """What is known of a spec's data; nothing where it was not tokenised yet."""
    try:
        return shown(tokens.of_spec(desk.paths, spec, start=False), spec, desk.lang)
    except ZeroBoardError:
        return ""  # the plan's problems say what is wrong


def shown(seen: tokens.Seen | None, spec: RunSpec, lang: Language) -> str:
    """The facts as the page shows them."""
    if seen is None:
        return ""
    return html(view.facts(seen.tokens, seen.suggestion, seen.problems, data=spec.data, lang=lang))


def wire(
    desk: Desk,
    panel: TokensPanel,
    *,
    asked: Callable[[tuple[Any, ...]], RunSpec],
    follow: Callable[..., Changes],
    inputs: list[Any],
    follows: list[Any],
) -> None:
    """`asked` makes the spec of the form's values; it raises where they make none.

    `follow` shows all that hangs on the form (`inputs` → `follows`): steps are known once the data is tokenised.
    """

    def tokenise(row: float | None, ids: bool, written: Any, *given: Any) -> Iterator[Changes]:
        spec = asked(given)
        yield {panel.sample: html(tag("p", desk.say("ui.tokens.working"), class_="zb-hint", role="status"))}
        try:
            seen = tokens.of_spec(desk.paths, spec, start=True)
            yield {**follow(written, *given), panel.facts: shown(seen, spec, desk.lang)}
            found = tokens.sample(
                desk.paths,
                spec.data.path,
                spec.model.path,
                row=int(row or 1),
                max_length=spec.data.max_length,
                columns=spec.data.chosen,
                mix=spec.data.mix,
                trust_remote_code=spec.model.trust_remote_code,
            )
        except Exception:
            yield {panel.sample: ""}
            raise
        yield {panel.sample: html(view.sample(found, desk.lang, ids=ids))}

    desk.wire.on(
        [panel.button.click, panel.row.submit, panel.ids.input],
        tokenise,
        inputs=[panel.row, panel.ids, *inputs],
        outputs=[*follows, panel.sample],
    )
