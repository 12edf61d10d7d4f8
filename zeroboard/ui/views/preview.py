"""The preview: command by argument, environment, files with every field explained. From the plan alone."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from markupsafe import Markup

from zeroboard.contract.plan import Plan
from zeroboard.messages import Language, say
from zeroboard.ui.views import explain, numbers
from zeroboard.ui.views.markup import badge, copy_button, empty, join, press, problem_list, rows, short_path, table, tag


def nothing(lang: Language) -> Markup:
    """Before the first preview."""
    button = press("zb-preview", say("ui.button.preview-now", lang))
    return empty(say("ui.preview.empty.title", lang), say("ui.preview.empty.text", lang), button)


def stale(lang: Language, differs: list[str]) -> Markup:
    """The form has changed since."""
    names = say("ui.list.comma", lang).join(differs)
    return tag(
        "div",
        tag("p", say("ui.preview.stale", lang, fields=names)),
        press("zb-preview", say("ui.button.preview-again", lang)),
        class_="zb-notice warning",
        role="status",
    )


def page(
    plan: Plan,
    lang: Language,
    state_words: str,
    *,
    base: str = "",
    differs: Markup | None = None,
    checks: Markup | None = None,
    alternatives: Markup | None = None,
    failed: int = 0,
) -> Markup:
    """The whole preview of a written plan; `differs` is the comparison with the last run, `failed` counts checks."""
    facts = [
        (say("ui.preview.run", lang), tag("code", plan.run_id or "")),
        (say("ui.preview.state", lang), state_words),
        (say("ui.preview.folder", lang), short_path(plan.folder or "", 72)),
        (say("ui.preview.hash", lang), tag("code", f"sha256 {plan.files_hash[:16]}…", title=plan.files_hash)),
    ]
    verdict = badge("pass", say("ui.preview.no-problems", lang))
    if failed:
        verdict = badge("fail", say("ui.checks.fail", lang, fails=failed))
    good = tag("p", verdict)
    return join(
        (
            tag("h2", say("ui.tab.preview", lang), class_="zb-sr"),
            tag("section", rows(facts), problem_list(plan.problems, lang) or good, class_="zb-block zb-summary"),
            _command(plan, lang),
            checks,
            _environment(plan, lang),
            *(file(name, content, plan, lang, base) for name, content in _telling_first(plan)),
            alternatives,
            differs,
        )
    )


def _telling_first(plan: Plan) -> list[tuple[str, str]]:
    """The DeepSpeed file first: it is what a reader comes for."""
    return sorted(plan.files.items(), key=lambda item: item[0] == "spec.yaml")


def command(argv: tuple[str, ...]) -> str:
    """The command as a person would type it, an argument (with its value) a line."""
    return " \\\n  ".join(" ".join(map(explain.quoted, piece)) for piece in explain.pieces(argv))


def _command(plan: Plan, lang: Language) -> Markup:
    place = "zb-text-command"
    told = explain.arguments(plan.argv, lang)
    last = len(told) - 1
    shown = [
        _line(("" if at == 0 else "  ") + piece + (" \\" if at < last else ""), None, words, lang)
        for at, (piece, words) in enumerate(told)
    ]
    return tag(
        "section",
        tag("div", tag("h3", say("ui.preview.command", lang)), copy_button(place, lang), class_="zb-title"),
        _lines(shown, say("ui.preview.pieces", lang)),
        tag("textarea", command(plan.argv), id=place, hidden=True, readonly=True),
        class_="zb-block",
    )


def _environment(plan: Plan, lang: Language) -> Markup:
    title = say("ui.preview.environment", lang)
    body = [
        (
            tag("code", name),
            tag("code", value) if value else tag("span", say("ui.form.empty", lang), class_="dim"),
            tag("span", explain.variable(name, lang), class_="dim"),
        )
        for name, value in sorted(plan.env.items())
    ]
    names = [join((tag("code", name), " ")) for name in plan.scrubbed]
    return tag(
        "section",
        tag("div", tag("h3", title), class_="zb-title"),
        table(
            [say(f"ui.preview.{name}", lang) for name in ("variable", "value", "what")], body, caption=title, wide=True
        ),
        tag(
            "details",
            tag("summary", say("ui.preview.scrubbed", lang, n=len(plan.scrubbed))),
            tag("p", *names, class_="zb-note"),
        )
        if names
        else None,
        class_="zb-block",
    )


def file(name: str, content: str, plan: Plan, lang: Language, base: str = "") -> Markup:
    """A file line by line, each field explained; those that decide stage, offload, batch and precision stand out."""
    place = f"zb-file-{name.replace('.', '-')}"
    shown = [_line(line.text, line.pointed, line.says, lang) for line in explain.lines(content, plan.batch.gpus, lang)]
    where = f"{plan.folder}/{name}" if plan.folder else name
    download = tag(
        "a",
        say("ui.button.download", lang),
        href=f"{base}/files/runs/{quote(plan.run_id or '')}/plan/{quote(name)}",
        download=name,
        class_="zb-link",
    )
    return tag(
        "section",
        tag(
            "div",
            tag("h3", tag("code", name)),
            tag("div", copy_button(place, lang), download if plan.run_id else None, class_="zb-does"),
            class_="zb-title",
        ),
        tag(
            "p",
            say("ui.preview.on-disk", lang),
            short_path(where, 80),
            " · ",
            numbers.size(len(content.encode()), lang),
            class_="zb-note",
        ),
        _lines(shown, say("ui.preview.explained", lang, name=name)),
        tag("textarea", content, id=place, hidden=True, readonly=True),
        class_="zb-block",
    )


def _lines(shown: Iterable[Markup], title: str) -> Markup:
    return tag("div", *shown, class_="zb-lines", tabindex="0", role="region", aria_label=title)


def _line(text: str, pointed: str | None, says: str | None, lang: Language) -> Markup:
    words = tag(
        "span",
        tag("b", pointed + (say("ui.full-stop", lang) if says else "")) if pointed else None,
        " " if pointed and says else None,
        says,
        class_="note",
    )
    return tag("div", tag("span", text or " ", class_="code"), words, class_="line on" if pointed else "line")
