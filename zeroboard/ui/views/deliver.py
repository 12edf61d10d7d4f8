"""An export: how far it is, what was delivered, and why one was not."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from zeroboard.contract.exports import ExportReport, ExportState
from zeroboard.messages import Language, has, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.export import check_list
from zeroboard.ui.views.markup import badge, join, problem_list, rows, short_path, table, tag

MARKS = {"running": "info", "finished": "pass", "failed": "fail", "cancelled": "skip", "lost": "warn"}
"""State of an export → colour and shape."""


def nothing(lang: Language) -> Markup:
    return tag("p", say("ui.deliver.nothing", lang), class_="zb-note")


def export(state: ExportState, report: ExportReport | None, lang: Language, download: str | None = None) -> Markup:
    """One export: its progress while it goes on, else what came of it."""
    word = say(f"ui.deliver.state.{state.state}", lang)
    kept = ".delivered" if report is not None and state.state in ("cancelled", "lost") else ""  # while it was sent
    told = say(f"ui.deliver.{state.state}{kept}", lang)
    head = tag("p", badge(MARKS[state.state], word), " ", told, class_="zb-verdict")
    if state.state == "running":
        return join((head, _progress(state, lang)))
    return join(
        (
            head,
            problem_list(state.problems, lang),
            _delivered(report, lang, download) if report is not None else None,
        )
    )


def _progress(state: ExportState, lang: Language) -> Markup:
    words = say(f"ui.deliver.phase.{state.phase}", lang)
    if state.says is not None and has(state.says, lang):
        words = f"{words}: {say(state.says, lang, **state.params)}"
    known = state.done is not None
    percent = f"{100 * (state.done or 0):.0f}"
    fill = tag("div", "", class_="fill" if known else "fill unknown", style=f"width:{percent}%" if known else None)
    bar = tag(
        "div", fill, class_="zb-progress", role="progressbar", aria_label=say("ui.deliver.title", lang),
        aria_valuenow=percent if known else None,
    )  # fmt: skip
    return join((bar, tag("p", words, class_="zb-now", role="status")))


def _delivered(report: ExportReport, lang: Language, download: str | None) -> Markup:
    verdict = report.verification.verdict
    told: list[tuple[object, object]] = [
        (say("ui.export.path", lang), short_path(report.path, 72)),
        (say("ui.export.kind", lang), say(f"kind.{report.kind}", lang)),
        (say("ui.fact.bytes", lang), numbers.size(report.bytes, lang)),
        (say("ui.deliver.took", lang), say("ui.deliver.seconds", lang, n=f"{report.seconds:.0f}")),
    ]
    if report.pushed:
        told.append((say("ui.deliver.pushed", lang), report.pushed))
    link = tag("a", say("ui.export.report", lang), href=download, download=True) if download else None
    files = say("ui.deliver.files", lang, n=len(report.files))
    listed = table(
        (say("ui.deliver.file", lang), say("ui.fact.bytes", lang)),
        ((file.name, numbers.size(file.bytes, lang)) for file in report.files),
        caption=files,
        numbers_from=1,
    )
    return join(
        (
            rows(told),
            tag("p", badge(verdict, say(f"ui.verdict.{verdict}", lang)), " ", link, class_="zb-verdict"),
            check_list(report.verification, lang),
            tag("details", tag("summary", files), listed),
            problem_list(report.notes, lang),
        )
    )


def past(states: Sequence[tuple[ExportState, str]], lang: Language) -> Markup | None:
    """Exports that are remembered, with the names of their folders; None where there are none."""
    if not states:
        return None
    body = [
        (badge(MARKS[state.state], say(f"ui.deliver.state.{state.state}", lang)), short_path(target, 40))
        for state, target in states
    ]
    title = say("ui.deliver.past", lang)
    head = (say("ui.deliver.state", lang), say("ui.export.path", lang))
    return tag("details", tag("summary", title), table(head, body, caption=title))
