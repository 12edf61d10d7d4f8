"""A data file, judged, as the page shows it: counts to scale, and every problem with its rows and a quotation."""

from __future__ import annotations

from markupsafe import Markup

from zeroboard.contract.reports import DataProblem, DataReport
from zeroboard.messages import Language, has, say
from zeroboard.services.judging import Judgement
from zeroboard.services.uploads import Upload
from zeroboard.services.words import of_data
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import badge, join, rows, severity_word, table, tag, worded

SHOWN = 4
"""Kinds of problems that are shown at once; the others are folded away."""
FILES_SHOWN = 200
"""Files of a folder that are listed."""
SHARES = ("good", "changed", "refused")


def card(judged: Judgement, lang: Language) -> Markup:
    """How far the judging is, or what it came to."""
    if judged.report is not None:
        return report_card(judged.report, lang)
    if judged.done is not None:
        return _going(judged.done, lang)
    if judged.stopped:
        return tag("p", say("ui.data.stopped", lang), class_="zb-note", role="status")
    return tag("p", say("ui.data.none", lang), class_="zb-note")


def _going(done: float, lang: Language) -> Markup:
    words = say("ui.data.judging", lang, done=numbers.percent(done, lang))
    fill = tag("div", "", class_="fill", style=f"transform:scaleX({done:.3f})")
    bar = tag(
        "div", fill, class_="zb-progress", role="progressbar", aria_valuemin=0, aria_valuemax=100,
        aria_valuenow=round(100 * done), aria_label=say("ui.data.judging.label", lang),
    )  # fmt: skip
    return tag("div", tag("p", words, class_="zb-note"), bar, class_="zb-judging")


def report_card(report: DataReport, lang: Language) -> Markup:
    """Format, encoding, counts, and what is wrong with which rows; of the evaluation file the same below."""
    card = _card(report, lang)
    if report.evaluation is None:
        return card
    title = say("ui.data.evaluation", lang, name=report.evaluation.path.rsplit("/", 1)[-1])
    return join((card, tag("section", tag("h2", title), _card(report.evaluation, lang), class_="zb-measured")))


def _card(report: DataReport, lang: Language) -> Markup:
    pairs = [
        (say("ui.data.format", lang), ", ".join(_formats(report, lang))),
        (say("ui.data.encoding", lang), report.encoding),
        (say("ui.data.usable", lang), f"{report.usable:,} / {report.total:,}"),
        (say("ui.data.changed", lang), f"{report.changed:,}"),
        (say("ui.data.refused", lang), f"{report.refused:,}"),
    ]
    if report.overlap:
        pairs.append((say("ui.data.overlap", lang), f"{report.overlap:,}"))
    grid = "zb-facts grid" if report.overlap else "zb-facts grid five"
    parts: list[object] = [rows(pairs, grid), _shares(report, lang), _files(report, lang)]
    if not report.problems:
        good = badge("pass", say("ui.data.no-problems", lang))
        return join((*parts, tag("p", good, class_="zb-data-good")))
    items = [_problem(problem, lang) for problem in report.problems]
    rest = None
    if len(items) > SHOWN:
        more = say("ui.data.more", lang, n=len(items) - SHOWN)
        rest = tag("details", tag("summary", more), tag("ul", *items[SHOWN:], class_="zb-problems"))
    title = tag("h2", say("ui.data.problems", lang))
    return join((*parts, title, tag("ul", *items[:SHOWN], class_="zb-problems"), rest))


def _formats(report: DataReport, lang: Language) -> list[str]:
    """Of all files, each once."""
    kinds = dict.fromkeys((report.format, *(file.format for file in report.files)))
    return [say(f"ui.data.format.{kind}", lang) for kind in kinds]


def _shares(report: DataReport, lang: Language) -> Markup | None:
    """The rows as a bar: usable as they are, repaired, refused; a share that is there is always to be seen."""
    counts = (report.usable - report.changed, report.changed, report.refused)
    if not report.total or not (report.changed or report.refused):
        return None
    parts = [
        tag("span", "", class_=name, style=f"flex:{count} 1 2px", title=f"{say(f'ui.data.{name}', lang)}: {count:,}")
        for name, count in zip(SHARES, counts, strict=True)
        if count
    ]
    words = ", ".join(f"{say(f'ui.data.{n}', lang)}: {c:,}" for n, c in zip(SHARES, counts, strict=True))
    return tag("div", *parts, class_="zb-shares", role="img", aria_label=words)


def _files(report: DataReport, lang: Language) -> Markup | None:
    """The files of a folder or of a mix, with the numbers of their rows and what became of them."""
    found, mixed = report.files, bool(report.mix.more)
    if not found:
        return None
    names = ("name", "format", "rows", "usable", "changed", "refused")
    head = [say(f"ui.data.files.{name}", lang) for name in names]
    body = [
        (
            file.name,
            say(f"ui.data.format.{file.format}", lang),
            f"{file.first:,} – {file.first + file.rows - 1:,}" if file.rows else "–",
            *(f"{count:,}" for count in (file.usable, file.changed, file.refused)),
        )
        for file in found[:FILES_SHOWN]
    ]
    title = say("ui.data.mixed" if mixed else "ui.data.files", lang, n=len(found))
    inside = (tag("summary", title), table(head, body, caption=title, numbers_from=2))
    return tag("details", *inside, class_="zb-files-of", open=mixed)


def _problem(problem: DataProblem, lang: Language) -> Markup:
    """What is wrong with which rows, what one of them looks like, and what to do."""
    told = ", ".join(map(str, problem.rows))
    params = {"count": problem.count, "rows": told, **problem.params}
    words = of_data(problem, lang) if has(problem.message_key, lang) else problem.code
    remedy = f"{problem.message_key}.remedy"
    quoted = None
    if problem.excerpt:
        label = say("ui.data.excerpt", lang, row=problem.rows[0] if problem.rows else "-")
        quoted = tag("span", tag("span", label, class_="dim"), " ", tag("code", problem.excerpt), class_="excerpt")
    return tag(
        "li",
        badge(problem.severity, severity_word(problem.severity, lang)),
        tag(
            "div",
            tag("span", words, " ", tag("code", problem.code, class_="code"), class_="words"),
            quoted,
            tag("span", worded(say(remedy, lang, **params)), class_="remedy") if has(remedy, lang) else None,
        ),
        class_=f"zb-problem {problem.severity}",
    )


def upload_line(upload: Upload, lang: Language) -> str:
    """An uploaded file in a line: name, size, when it came."""
    return f"{upload.name} · {numbers.size(upload.size, lang)} · {numbers.moment(upload.came, lang)}"
