"""The list of runs."""

from __future__ import annotations

from urllib.parse import urlencode

from markupsafe import Markup

from zeroboard.contract.state import RunState
from zeroboard.messages import Language, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.header import run_words
from zeroboard.ui.views.live import STATE_KIND
from zeroboard.ui.views.markup import badge, empty, table, tag


def runs(found: tuple[RunState, ...], current: str, lang: Language) -> Markup:
    """Newest first; a name opens its run."""
    if not found:
        return empty(say("ui.runs.empty.title", lang), say("ui.runs.empty.text", lang))
    names = ("run", "state", "model", "method", "stage", "loss", "steps", "took", "created")
    return table(
        [say(f"ui.runs.head.{name}", lang) for name in names],
        [_row(run, current, lang) for run in found],
        caption=say("ui.runs.title", lang),
        numbers_from=5,
    )


def _row(run: RunState, current: str, lang: Language) -> tuple[object, ...]:
    stage = say("ui.stage.none", lang) if run.stage == "none" else run.stage
    if run.offload != "none":
        stage += " + " + say(f"ui.offload.{run.offload}", lang)
    took = None if run.started is None else (run.ended or run.changed) - run.started
    return (
        tag(
            "a",
            run.name or run.id,
            href="?" + urlencode({"run": run.id}),
            title=run.id,
            aria_current="true" if run.id == current else None,
            class_="zb-open",
        ),
        badge(STATE_KIND.get(run.state, "live" if run.state != "planned" else "skip"), run_words(run, lang)),
        run.model.rsplit("/", 1)[-1],
        say(f"field.method.kind.choice.{run.method}", lang),
        stage,
        numbers.loss(run.loss, lang),
        f"{run.step:,} / {run.steps:,}" if run.steps else "–",
        numbers.duration(took, lang) if took is not None else "–",
        numbers.moment(run.created, lang),
    )
