"""What came out, and whether it is sound."""

from __future__ import annotations

from markupsafe import Markup

from zeroboard.contract.reports import Check, VerifyReport
from zeroboard.contract.requests import Progress
from zeroboard.messages import Language, has, say
from zeroboard.ui.views import numbers
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
    named = [
        (say("ui.export.kind", lang), say(f"kind.{found.kind}", lang)),
        (say("ui.export.path", lang), short_path(found.path, 72)),
    ]
    facts = [(_fact(name, lang), _value(name, value, lang)) for name, value in found.facts.items() if _short(value)]
    link = tag("a", say("ui.export.report", lang), href=download, download=True) if download else None
    verdict = tag(
        "p",
        badge(found.verdict, say(f"ui.verdict.{found.verdict}", lang)),
        " ",
        say(f"ui.verdict.{found.verdict}.words", lang),
        class_="zb-verdict",
    )
    title = tag("div", tag("h3", say("ui.export.checks", lang, n=len(found.checks))), link, class_="zb-title")
    return join((verdict, rows(named), rows(facts, "zb-facts grid"), title, _checks(found, lang)))


def _checks(found: VerifyReport, lang: Language) -> Markup:
    """What did not pass stands open, the worst first; what passed is folded away with its count."""
    order = {"fail": 0, "warn": 1, "skip": 2}
    told = sorted((c for c in found.checks if c.verdict != "pass"), key=lambda c: order[c.verdict])
    passed = [c for c in found.checks if c.verdict == "pass"]
    folded = tag(
        "details",
        tag("summary", badge("pass", say("ui.verdict.pass", lang)), " ", say("ui.export.passed", lang, n=len(passed))),
        tag("ul", *(_check(check, lang) for check in passed), class_="zb-checks"),
    )
    shown = tag("ul", *(_check(check, lang) for check in told), class_="zb-checks") if told else None
    return join((shown, folded if passed else None))


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


def _value(name: str, value: object, lang: Language) -> str:
    if name == "bytes" and isinstance(value, int):
        return numbers.size(value, lang)
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
