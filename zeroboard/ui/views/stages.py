"""What each rank stores at every stage, side by side and to one scale, with the figures beside the bars."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from zeroboard.contract.plan import Promise
from zeroboard.contract.spec import Stage
from zeroboard.messages import Language, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import tag

HELD = ("parameters", "gradients", "optimizer")
SMALL_SHARE = 0.1
"""Trained share of the parameters below which it is said that sharding saves little."""


def stages(
    held: Mapping[Stage, Promise], chosen: Stage, *, ranks: int, share: float | None, lang: Language
) -> Markup | None:
    """The picture; None where the model's shapes are not known. `share` is trained ÷ all parameters."""
    if not held:
        return None
    scale = max(total(promise) for promise in held.values()) or 1
    moved = any(promise.offloaded_bytes for promise in held.values())
    heads = [tag("th", say("ui.stages.head.stage", lang), scope="col"), tag("th", "", scope="col", class_="picture")]
    heads.append(tag("th", say("ui.stages.head.total", lang), scope="col", class_="num"))
    heads += [
        tag(
            "th",
            tag("span", "", class_=f"swatch {name}"),
            say(f"ui.proof.head.{name}", lang),
            scope="col",
            class_="num",
        )
        for name in HELD
    ]
    if moved:
        heads.append(tag("th", say("ui.proof.head.offloaded", lang), scope="col", class_="num"))
    title = say("ui.stages.title", lang, ranks=ranks)
    body = [_row(stage, promise, scale, stage == chosen, moved, lang) for stage, promise in held.items()]
    small = share is not None and share < SMALL_SHARE
    note = say("ui.stages.lora", lang, percent=f"{100 * (share or 0):.2g}") if small else say("ui.stages.full", lang)
    return tag(
        "figure",
        tag("figcaption", title),
        tag(
            "div",
            tag(
                "table",
                tag("caption", say("ui.stages.table", lang), class_="zb-sr"),
                tag("thead", tag("tr", *heads)),
                tag("tbody", *body),
            ),
            class_="zb-scroll",
            tabindex="0",
            role="region",
            aria_label=title,
        ),
        tag("p", note, class_="zb-note"),
        class_="zb-stages",
    )


def total(promise: Promise) -> int:
    return promise.parameter_bytes + promise.gradient_bytes + promise.optimizer_bytes


def _row(stage: Stage, promise: Promise, scale: int, chosen: bool, moved: bool, lang: Language) -> Markup:
    figures = (promise.parameter_bytes, promise.gradient_bytes, promise.optimizer_bytes)
    name = say("ui.stage.none", lang) if stage == "none" else stage
    cells = [
        tag(
            "th",
            name,
            tag("span", "✓", class_="mark", title=say("ui.stages.chosen", lang)) if chosen else None,
            scope="row",
        ),
        tag("td", bar(promise, scale), class_="picture"),
        tag("td", tag("b", numbers.mib(sum(figures), lang)), class_="num"),
        *(tag("td", numbers.mib(value, lang), class_="num") for value in figures),
    ]
    if moved:
        shown = numbers.mib(promise.offloaded_bytes, lang) if promise.offloaded_bytes else "–"
        cells.append(tag("td", shown, class_="num"))
    return tag("tr", *cells, class_="chosen" if chosen else None)


def bar(promise: Promise, scale: int) -> Markup:
    """The bar of a rank, `scale` bytes being the whole width; what lies in the host's memory is drawn hollow."""
    figures = (promise.parameter_bytes, promise.gradient_bytes, promise.optimizer_bytes)
    away = set()
    if promise.offloaded_bytes:
        away.add("optimizer")
    if promise.offloaded_bytes > promise.optimizer_bytes:
        away.add("parameters")
    pieces, at = [], 0.0
    for name, value in zip(HELD, figures, strict=True):
        width = 100 * value / scale
        classes = f"{name} away" if name in away else name
        pieces.append(tag("rect", x=f"{at:.3f}%", y="0", width=f"{width:.3f}%", height="14", class_=classes))
        at += width
    return tag("svg", *pieces, width="100%", height="14", aria_hidden="true", class_="zb-bar")
