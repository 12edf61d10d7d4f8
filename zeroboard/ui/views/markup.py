"""HTML by function: `tag` escapes what it is given, so a view cannot forget to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from urllib.parse import urlencode

from markupsafe import Markup, escape

from zeroboard.contract.problems import Problem, Severity
from zeroboard.messages import Language, has, say

_VOID = frozenset({"br", "hr", "input", "img", "meta", "link"})


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """An element. `class_` is class, `data_x` is data-x; None and False leave an attribute out, True names it only."""
    parts = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        parts.append(f" {word}" if value is True else f' {word}="{escape(str(value))}"')
    start = Markup(f"<{name}{''.join(parts)}>")
    if name in _VOID:
        return start
    return start + join(inside) + Markup(f"</{name}>")


def join(pieces: Iterable[object], between: str = "") -> Markup:
    """The pieces one behind the other, those that are None left out."""
    return Markup(escape(between)).join(escape(piece) for piece in pieces if piece is not None)


def sentences(told: Iterable[str], lang: Language) -> str:
    """One behind the other, set apart as the language does it: Chinese leaves no space."""
    return reduce(lambda first, then: say("ui.sentences", lang, first=first, then=then), told)


def worded(text: str) -> Markup:
    """A sentence in which what stands between backticks is code."""
    return join(tag("code", piece) if at % 2 else piece for at, piece in enumerate(text.split("`")) if piece)


def rows(pairs: Iterable[tuple[object, object]], class_: str = "zb-facts") -> Markup:
    """Names and values as a description list."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), class_=class_)


def table(
    head: Iterable[object],
    body: Iterable[Iterable[object]],
    *,
    caption: str,
    numbers_from: int = 99,
    wide: bool = False,
) -> Markup:
    """A table that scrolls inside its card. Columns from `numbers_from` on are numbers: right, tabular.

    `wide`: its last column is a sentence, which gets the room that is left.
    """
    heads = list(head)
    cells = [
        tag("tr", *(tag("td", cell, class_="num" if at >= numbers_from else None) for at, cell in enumerate(row)))
        for row in body
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption, class_="zb-sr"),
            tag(
                "thead",
                tag(
                    "tr",
                    *(
                        tag("th", h, scope="col", class_="num" if at >= numbers_from else None)
                        for at, h in enumerate(heads)
                    ),
                ),
            ),
            tag("tbody", *cells),
            class_="wide" if wide else None,
        ),
        class_="zb-scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


MARKS: dict[str, str] = {"pass": "✓", "warn": "!", "fail": "✕", "skip": "–", "error": "✕", "warning": "!", "info": "i"}
"""A shape beside every colour."""


def badge(kind: str, text: str) -> Markup:
    """A coloured word with its shape."""
    return tag(
        "span", tag("span", MARKS.get(kind, "•"), aria_hidden="true", class_="mark"), text, class_=f"zb-badge {kind}"
    )


def empty(title: str, text: str, button: Markup | None = None) -> Markup:
    """An empty state: what is missing, what to do next, and a button that does it."""
    return tag("div", tag("h2", title), tag("p", text), button, class_="zb-empty")


def press(element: str, words: str) -> Markup:
    """A button that presses another one of the page, by its id, wherever that stands."""
    return tag("button", words, type="button", class_="zb-press", data_press=element)


def run_link(run_id: str, words: str) -> Markup:
    """A link that opens a run."""
    return tag("a", words, href="?" + urlencode({"run": run_id}), class_="zb-open")


def short_path(path: str, keep: int = 44) -> Markup:
    """A path shortened in the middle, the whole of it on hover."""
    if len(path) <= keep:
        return tag("code", path)
    half = (keep - 1) // 2
    return tag("code", f"{path[:half]}…{path[-half:]}", title=path)


def problem_item(problem: Problem, lang: Language) -> Markup:
    """A problem in words with its remedy; a click leads to its field."""
    params = {"field": problem.field, **problem.params}
    if problem.field is not None and params.get("key") == problem.field:
        params["key"] = field_label(problem.field, lang)  # as the form names it
    words = say(problem.message_key, lang, **params)
    remedy = say(problem.remedy_key, lang, **params) if has(problem.remedy_key, lang) else None
    label = field_label(problem.field, lang) if problem.field else None
    return tag(
        "li",
        badge(problem.severity, severity_word(problem.severity, lang)),
        tag(
            "div",
            tag("a", label, href=f"#f-{problem.field}", class_="goto", data_goto=problem.field) if label else None,
            tag("span", worded(words), class_="words"),
            tag("span", worded(remedy), class_="remedy") if remedy else None,
            run_link(str(problem.params["run"]), say("ui.open-run", lang)) if problem.params.get("run") else None,
        ),
        class_=f"zb-problem {problem.severity}",
        data_field=problem.field,
        data_words=words,
    )


def problem_list(problems: Iterable[Problem], lang: Language) -> Markup | None:
    """Problems, the worst first; None where there are none."""
    order = {"error": 0, "warning": 1, "info": 2}
    items = sorted(problems, key=lambda p: order[p.severity])
    return tag("ul", *(problem_item(p, lang) for p in items), class_="zb-problems") if items else None


def severity_word(severity: Severity, lang: Language) -> str:
    return say(f"ui.severity.{severity}", lang)


def field_label(key: str, lang: Language) -> str:
    """The label of a field, or its key where the field has none (a key that a file brought)."""
    name = f"field.{key}.label"
    return say(name, lang) if has(name, lang) else key


def copy_button(place: str, lang: Language) -> Markup:
    """Copies the text of the element `place`; says that it did."""
    return tag(
        "button",
        say("ui.copy", lang),
        type="button",
        class_="zb-link",
        data_copy=place,
        data_done=say("ui.copied", lang),
    )
