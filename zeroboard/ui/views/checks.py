"""The preview's checks and alternatives: what was looked at before anything is spent, and other ways to start it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from zeroboard.contract.reports import DoctorCheck
from zeroboard.messages import Language, has, say
from zeroboard.planning.render import Rendered
from zeroboard.ui.views.markup import badge, copy_button, field_label, join, tag

ORDER = {"fail": 0, "warn": 1, "pass": 2, "skip": 3}


def checks(found: Sequence[DoctorCheck], lang: Language) -> Markup:
    """What fails and warns stands open, with its remedy; what passes is folded away."""
    count = Counter(check.verdict for check in found)
    told = sorted((c for c in found if c.verdict in ("fail", "warn")), key=lambda c: ORDER[c.verdict])
    quiet = sorted((c for c in found if c.verdict in ("pass", "skip")), key=lambda c: ORDER[c.verdict])
    verdict = "fail" if count["fail"] else "warn" if count["warn"] else "pass"
    words = say(f"ui.checks.{verdict}", lang, fails=count["fail"], warns=count["warn"], passes=count["pass"])
    return tag(
        "section",
        tag("div", tag("h3", say("ui.checks.title", lang)), badge(verdict, words), class_="zb-title"),
        tag("ul", *(_check(check, lang) for check in told), class_="zb-checks") if told else None,
        tag(
            "details",
            tag("summary", say("ui.checks.passed", lang, n=len(quiet))),
            tag("ul", *(_check(check, lang) for check in quiet), class_="zb-checks"),
        ),
        class_="zb-block",
        id="zb-checks",
    )


def barred(failed: int, lang: Language) -> Markup:
    """What stands beside the button that starts: what it does, or how many checks keep it from that."""
    if not failed:
        return tag("p", say("ui.preview.start.hint", lang), class_="zb-note")
    words = badge("fail", say("ui.checks.fail", lang, fails=failed))
    return tag("p", words, " ", say("ui.preview.start.barred", lang), class_="zb-note", role="status")


def _check(check: DoctorCheck, lang: Language) -> Markup:
    params = dict(check.params)
    field = params.get("field")
    if isinstance(field, str) and has(f"field.{field}.label", lang):
        params["field"] = field_label(field, lang)
    bad = check.verdict in ("fail", "warn")
    remedy = say(check.remedy_key, lang, **params) if bad and has(check.remedy_key, lang) else None
    return tag(
        "li",
        badge(check.verdict, say(f"ui.verdict.{check.verdict}", lang)),
        tag(
            "div",
            tag("strong", say(f"ui.checks.name.{check.name}", lang)),
            tag("span", say(check.says, lang, **params), class_="words"),
            tag("span", remedy, class_="remedy") if remedy else None,
        ),
    )


def alternatives(found: Sequence[Rendered], lang: Language) -> Markup | None:
    """Other launchers for the same plan, folded; None where there are none."""
    if not found:
        return None
    parts = [
        tag(
            "details",
            tag("summary", say(f"ui.alternatives.{one.launcher}", lang)),
            *(_step(one.launcher, at, says=say(s.says, lang, **s.params), text=s.text, lang=lang)
              for at, s in enumerate(one.steps)),
        )
        for one in found
    ]  # fmt: skip
    return tag(
        "section",
        tag("div", tag("h3", say("ui.alternatives.title", lang)), class_="zb-title"),
        tag("p", say("ui.alternatives.hint", lang), class_="zb-note"),
        join(parts),
        class_="zb-block",
        id="zb-alternatives",
    )


def _step(launcher: str, at: int, *, says: str, text: str, lang: Language) -> Markup:
    place = f"zb-text-{launcher}-{at}"
    copy = copy_button(place, lang)
    lines = [
        tag("div", tag("span", line or " ", class_="code"), class_="line plain") for line in text.rstrip().split("\n")
    ]
    return join(
        (
            tag("div", tag("p", says, class_="zb-note"), copy, class_="zb-title"),
            tag("div", *lines, class_="zb-lines", tabindex="0", role="region", aria_label=says),
            tag("textarea", text, id=place, hidden=True, readonly=True),
        )
    )
