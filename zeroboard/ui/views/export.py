"""What came out, and whether it is sound."""

from __future__ import annotations

import time
from collections.abc import Mapping

from markupsafe import Markup
from pydantic import JsonValue

from zeroboard.contract.problems import Scalar
from zeroboard.contract.reports import Check, VerifyReport
from zeroboard.contract.requests import Progress
from zeroboard.messages import Language, has, say
from zeroboard.services.results import Output
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import MARKS, badge, empty, join, press, rows, short_path, table, tag

SHOWN = (
    "architecture", "parameters", "dtype", "bytes", "files", "shards", "rank", "alpha", "targets", "step", "stage",
    "world_size",
)  # fmt: skip
"""Facts in the order in which they are shown."""


def nothing(lang: Language) -> Markup:
    button = press("zb-tabs", say("ui.button.set-up", lang))
    return empty(say("ui.export.empty.title", lang), say("ui.export.empty.text", lang), button)


def label(output: Output, lang: Language) -> str:
    """An entry of the list in three lines: what it is, of which run, its verdict and when."""
    what = "folder" if output.run_id is None else "result" if output.step is None else "checkpoint"
    title = f"{say(f'ui.export.{what}', lang, n=output.step)} · {say(f'ui.kind.{output.kind}', lang)}"
    verdict = f"{MARKS[output.verdict]} " if output.verdict else ""
    verdict += say(f"ui.verdict.{output.verdict or 'none'}", lang)
    when = time.strftime("%m-%d %H:%M", time.localtime(output.created)) if output.created else None
    return "\n".join((title, output.name or output.run_id or "", " · ".join(filter(None, (verdict, when)))))


def unverified(output: Output, lang: Language) -> Markup:
    """A folder without a report yet."""
    return join(
        (
            tag("p", badge("skip", say("ui.verdict.none", lang)), " ", say("ui.export.unverified.text", lang),
                class_="zb-verdict"),
            _identity(output, lang),
            facts(output.facts, lang),
        )
    )  # fmt: skip


def report(
    found: VerifyReport, output: Output, lang: Language, download: str | None = None, summary: str | None = None
) -> Markup:
    """Kind, verdict, facts, answers before and after, and each check with what it means."""
    links = [tag("a", say("ui.export.report", lang), href=download, download=True)] if download else []
    if summary:
        links.append(tag("a", say("ui.export.summary", lang), href=summary, download=True))
    verdict = tag(
        "p",
        badge(found.verdict, say(f"ui.verdict.{found.verdict}", lang)),
        " ",
        say(f"ui.verdict.{found.verdict}.words", lang),
        class_="zb-verdict",
    )
    title = tag(
        "div", tag("h3", say("ui.export.checks", lang, n=len(found.checks))),
        tag("span", join(links, " · "), class_="zb-links") if links else None, class_="zb-title gap",
    )  # fmt: skip
    return join(
        (
            tag("h2", say("ui.tab.export", lang), class_="zb-sr"),
            verdict,
            _identity(output, lang),
            facts(found.facts, lang),
            answers(found.facts, lang),
            title,
            check_list(found, lang),
        )
    )


def _identity(output: Output, lang: Language) -> Markup:
    told: list[tuple[object, object]] = [(say("ui.export.kind", lang), say(f"kind.{output.kind}", lang))]
    if output.facts.get("stage") is not None and output.kind in ("lora-adapter", "full-model"):
        told.append(("", say("ui.export.with-states", lang)))
    told.append((say("ui.export.path", lang), short_path(str(output.folder), 72)))
    base = output.base or output.facts.get("base")
    if output.kind == "lora-adapter" and base:
        told.append((say("ui.fact.base", lang), short_path(str(base), 72)))
    return rows(told)


def facts(known: Mapping[str, JsonValue], lang: Language) -> Markup | None:
    """What is known, in words with units."""
    told: list[tuple[object, object]] = [
        (say(f"ui.fact.{name}", lang), _fact(name, known[name], lang))
        for name in SHOWN
        if known.get(name) not in (None, [], "")
    ]
    load = known.get("load")
    if isinstance(load, dict):
        words = say("ui.fact.loaded.words", lang, **{k: v for k, v in load.items() if isinstance(v, (str, int, float))})
        told.append((say("ui.fact.loaded", lang), words))
    return rows(told, "zb-facts grid") if told else None


def _fact(name: str, value: JsonValue, lang: Language) -> object:
    if isinstance(value, list):
        names = [str(each) for each in value]
        # peft may name every module in full: what a person wants to know is which kinds of layer they are
        kinds = dict.fromkeys(name.rpartition(".")[2] for name in names) if name == "targets" else names
        return tag("span", say("ui.list.comma", lang).join(kinds), title=", ".join(names))
    if not isinstance(value, int) or isinstance(value, bool):
        return str(value)
    match name:
        case "bytes":
            return numbers.size(value, lang)
        case "parameters":
            return tag("span", numbers.millions(value, lang), title=f"{value:,}")
        case "stage":
            return f"ZeRO {value}"
        case "world_size":
            return say("ui.fact.ranks", lang, n=value)
        case _:
            return numbers.count(value, lang)


def answers(known: Mapping[str, JsonValue], lang: Language) -> Markup | None:
    """What the verification asked, and what was said before and after training."""
    asked = known.get("prompts")
    if not isinstance(asked, list) or not asked:
        return None
    body = [
        (str(one.get("prompt", "")), _said(one.get("before"), lang), _said(one.get("after"), lang))
        for one in asked
        if isinstance(one, dict)
    ]
    title = say("ui.export.answers", lang)
    head = [say(f"ui.export.answers.{name}", lang) for name in ("prompt", "before", "after")]
    return tag(
        "section", tag("h3", title), table(head, body, caption=title),
        tag("p", say("ui.export.answers.note", lang), class_="zb-note"), class_="zb-answers",
    )  # fmt: skip


def _said(answer: object, lang: Language) -> object:
    if answer is None:
        return say("ui.none", lang)
    return str(answer) if answer else tag("span", say("ui.export.answers.empty", lang), class_="dim")


def check_list(found: VerifyReport, lang: Language) -> Markup:
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
    params = {name: _number(value) for name, value in check.params.items()}
    if check.says == "check.load.files-first":  # the checks that failed, by the names under which they stand here
        names = str(params["names"]).split(", ")
        params["names"] = say("ui.list.comma", lang).join(say(f"check.{name}.label", lang) for name in names)
    remedy = remedy_key(check, lang)
    return tag(
        "li",
        badge(check.verdict, say(f"ui.verdict.{check.verdict}", lang)),
        tag(
            "div",
            tag("strong", say(f"check.{check.name}.label", lang)),
            tag("span", say(check.says, lang, **params), class_="words"),
            tag("span", tag("b", say("ui.export.remedy", lang)), " ", say(remedy, lang, **params), class_="todo")
            if remedy
            else None,
            tag("span", say(f"check.{check.name}.meaning", lang), class_="dim"),
        ),
        class_=check.verdict,
    )


def remedy_key(check: Check, lang: Language) -> str | None:
    """What to do about a check that did not pass: for this very finding, else for the check. None where nothing is."""
    if check.verdict not in ("fail", "warn"):
        return None
    key = f"{check.says}.remedy"
    return key if has(key, lang) else f"check.{check.name}.remedy"


def _number(value: Scalar) -> Scalar:
    """Long numbers with their thousands apart."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and value >= 10_000 else value


def checking(output: Output, lang: Language, progress: Progress | None) -> Markup:
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
    bar = tag(
        "div",
        fill,
        class_="zb-progress",
        role="progressbar",
        aria_label=say("ui.export.checking", lang),
        aria_valuenow=f"{100 * done:.0f}" if done is not None else None,
    )
    return join(
        (bar, tag("p", words, class_="zb-now", role="status"), _identity(output, lang), facts(output.facts, lang))
    )
