"""The end of a log."""

from __future__ import annotations

from urllib.parse import quote

from markupsafe import Markup

from zeroboard.messages import Language, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import empty, tag


def nothing(lang: Language) -> Markup:
    return empty(say("ui.logs.empty.title", lang), say("ui.logs.empty.text", lang))


def tail(text: str, size: int, *, run_id: str, name: str, base: str, lang: Language) -> Markup:
    """The last lines (they stay scrolled to the end while they grow) and the whole file as a download."""
    return tag(
        "div",
        tag("pre", text or say("ui.logs.nothing", lang), class_="zb-code zb-log", tabindex="0", data_follow=True),
        tag(
            "p",
            say("ui.logs.size", lang, size=numbers.size(size, lang)),
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
