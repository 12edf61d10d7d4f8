"""The end of a log."""

from __future__ import annotations

import re
from urllib.parse import quote

from markupsafe import Markup

from zeroboard.messages import Language, say
from zeroboard.services.logs import LogTail
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import empty, join, tag


def nothing(lang: Language) -> Markup:
    return empty(say("ui.logs.empty.title", lang), say("ui.logs.empty.text", lang))


def tail(end: LogTail, *, run_id: str, name: str, search: str, base: str, lang: Language) -> Markup:
    """The last lines, those that were looked for marked, and the whole file as a download.

    They stay scrolled to the end while they grow, unless somebody has scrolled up to read.
    """
    text = _numbered(end, search) if end.chosen else end.text
    size = numbers.size(end.size, lang)
    words = say("ui.logs.size", lang, n=f"{end.lines:,}", size=size)
    if end.chosen:
        words = say("ui.logs.size.chosen", lang, n=f"{end.lines:,}", count=f"{end.count:,}", size=size)
    return tag(
        "div",
        tag(
            "pre",
            text or say("ui.logs.nothing-found" if end.chosen else "ui.logs.nothing", lang),
            class_="zb-code zb-log",
            tabindex="0",
            data_follow=True,
        ),
        tag(
            "p",
            words,
            " · ",
            tag(
                "a",
                say("ui.logs.download", lang),
                href=f"{base}/files/runs/{quote(run_id)}/logs/{quote(name)}",
                download=True,
            ),
            class_="zb-note",
        ),
    )


def _numbered(end: LogTail, search: str) -> Markup:
    """The lines that were chosen, each with its number in the file."""
    wide = len(str(end.numbers[-1])) if end.numbers else 1
    lines = zip(end.numbers, end.text.split("\n"), strict=True) if end.numbers else ()
    return join(
        (
            join((tag("span", f"{number:>{wide}}  ", class_="dim"), marked(line, search) if search else line))
            for number, line in lines
        ),
        "\n",
    )


def marked(text: str, search: str) -> Markup:
    """The text with every occurrence marked, whatever its case."""
    pieces = re.split(f"({re.escape(search)})", text, flags=re.IGNORECASE)
    return join(tag("mark", piece) if at % 2 else piece for at, piece in enumerate(pieces))
