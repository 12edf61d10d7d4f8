"""What came out, and whether it is sound."""

from __future__ import annotations

from markupsafe import Markup

from zeroboard.contract.reports import Check, VerifyReport
from zeroboard.contract.requests import Progress
from zeroboard.messages import Language, has, say
from zeroboard.ui.views.markup import badge, empty, join, rows, short_path, tag


def nothing(lang: Language) -> Markup:
    return empty(say("ui.export.empty.title", lang), say("ui.export.empty.text", lang))


def unverified(path: str, lang: Language) -> Markup:
    """A folder without a report yet."""
    return rows([(say("ui.export.path", lang), short_path(path, 72))]) + empty(
        say("ui.export.unverified.title", lang), say("ui.export.unverified.text", lang)
    )


def report(found: VerifyReport, lang: Language, download: str | None = None) -> Markup:
    """Kind, verdict, facts, and each check with what it means."""
    facts = [
        (say("ui.export.kind", lang), say(f"kind.{found.kind}", lang)),
        (say("ui.export.path", lang), short_path(found.path, 72)),
        *((_fact(name, lang), _value(value)) for name, value in found.facts.items() if _short(value)),
    ]
    link = tag("a", say("ui.export.report", lang), href=download, download=True) if download else None
    return join(
        (
            tag(
                "p",
                badge(found.verdict, say(f"ui.verdict.{found.verdict}", lang)),
                " ",
                say(f"ui.verdict.{found.verdict}.words", lang),
                class_="zb-verdict",
            ),
            rows(facts),
            tag("div", tag("h3", say("ui.export.checks", lang, n=len(found.checks))), link, class_="zb-title"),
            tag("ul", *(_check(check, lang) for check in found.checks), class_="zb-checks"),
        )
    )


def _check(check: Check, lang: Language) -> Markup:
    remedy = f"{check.says}.remedy"
    return tag(
        "li",
        badge(check.verdict, say(f"ui.verdict.{check.verdict}", lang)),
        tag(
            "div",
            tag("strong", say(f"check.{check.name}.label", lang)),
            tag("span", say(check.says, lang, **check.params), class_="words"),
            tag("span", say(remedy, lang, **check.params), class_="remedy") if has(remedy, lang) else None,
            tag("span", say(f"check.{check.name}.meaning", lang), class_="dim"),
        ),
        class_=check.verdict,
    )


def _short(value: object) -> bool:
    return isinstance(value, (str, int, float)) and len(str(value)) < 120


def _fact(name: str, lang: Language) -> str:
    key = f"ui.fact.{name}"
    return say(key, lang) if has(key, lang) else name.replace("_", " ")


def _value(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def checking(lang: Language, progress: Progress | None) -> Markup:
    """While the folder is being judged anew."""
    done = progress.done if progress is not None else None
    words = say("ui.export.checking", lang)
    if progress is not None and progress.says and has(progress.says, lang):
        words = say(progress.says, lang, **progress.params)
    fill = tag(
        "div",
        "",
        class_="fill" if done is not None else "fill unknown",
        style=f"width:{100 * (done or 0):.0f}%" if done is not None else None,
    )
    bar = tag("div", fill, class_="zb-progress", role="progressbar", aria_label=words)
    return join((bar, tag("p", words, class_="zb-now", role="status")))
