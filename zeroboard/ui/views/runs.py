"""The list of runs."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from markupsafe import Markup

from zeroboard.contract.reports import Verdict
from zeroboard.contract.state import RunState
from zeroboard.messages import Language, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.header import run_words
from zeroboard.ui.views.live import STATE_KIND
from zeroboard.ui.views.markup import badge, empty, join, press, problem_item, table, tag

UNREADABLE = "run-unreadable"
"""Code of the problem of a folder that is listed and cannot be read."""


def looking(lang: Language) -> Markup:
    """Before the list was read for the first time."""
    return tag("div", tag("p", say("ui.runs.looking", lang)), class_="zb-empty", role="status")


def runs(
    found: tuple[RunState, ...], current: str, lang: Language, verdicts: Mapping[str, Verdict | None] | None = None
) -> Markup:
    """Newest first; a name opens its run. `verdicts`: id → what the verification said."""
    if not found:
        button = press("zb-faces", say("ui.button.set-up", lang))
        return empty(say("ui.runs.empty.title", lang), say("ui.runs.empty.text", lang), button)
    names = ("run", "state", "verdict", "model", "method", "stage", "loss", "steps", "took", "created")
    broken = [run for run in found if _broken(run)]
    good = table(
        [say(f"ui.runs.head.{name}", lang) for name in names],
        [_row(run, current, (verdicts or {}).get(run.id), lang) for run in found if not _broken(run)],
        caption=say("ui.runs.title", lang),
        numbers_from=6,
    )
    items = [
        tag("li", tag("code", run.id), tag("ul", problem_item(run.problem, lang), class_="zb-problems"))
        for run in broken
        if run.problem is not None
    ]
    return join((good if len(broken) < len(found) else None, tag("ul", *items, class_="zb-broken") if items else None))


def _broken(run: RunState) -> bool:
    return run.problem is not None and run.problem.code == UNREADABLE


def _row(run: RunState, current: str, verdict: Verdict | None, lang: Language) -> tuple[object, ...]:
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
        badge(verdict, say(f"ui.verdict.{verdict}", lang)) if verdict else tag("span", "–", class_="dim"),
        tag("span", run.model.rsplit("/", 1)[-1], title=run.model),
        say(f"field.method.kind.choice.{run.method}", lang),
        stage,
        numbers.loss(run.loss, lang),
        f"{run.step:,} / {run.steps:,}" if run.steps else "–",
        numbers.duration(took, lang) if took is not None else "–",
        numbers.moment(run.created, lang),
    )
