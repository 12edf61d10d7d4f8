"""How a spec differs from another, and whether more than one optimisation was changed at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from zeroboard.contract.spec import RunSpec
from zeroboard.messages import Language, say
from zeroboard.services.words import setting
from zeroboard.ui.views.markup import field_label, join, table, tag

OPTIMISATIONS: tuple[tuple[str, ...], ...] = (
    ("zero.stage",),
    ("zero.offload",),
    ("train.activation_checkpointing",),
    ("train.micro_batch", "train.accumulation"),
    ("train.precision",),
    ("zero.bucket_size",),
    ("zero.overlap_comm",),
)
"""What is best changed one at a time; the fields of a line are one optimisation."""

LOOSE = frozenset({"name"})
"""Fields that make no difference to the training."""

Change = tuple[str, Any, Any]
"""(field, value before, value now)"""


def changes(before: RunSpec, after: RunSpec) -> list[Change]:
    """The fields in which two specs differ, in the order of the spec."""
    one = dict(_flat(before.model_dump(mode="json"), ""))
    two = dict(_flat(after.model_dump(mode="json"), ""))
    return [(key, one.get(key), two[key]) for key in two if one.get(key) != two[key]]


def optimisations(found: list[Change]) -> list[str]:
    """The first field of each optimisation that was changed."""
    named = {key for key, _, _ in found}
    return [fields[0] for fields in OPTIMISATIONS if named.intersection(fields)]


def difference(before: RunSpec | None, after: RunSpec, run: str, lang: Language) -> Markup:
    """The section of the preview. `before` None: there was no run to compare with; `run` is what that one is called."""
    title = tag("div", tag("h3", say("ui.preview.diff", lang)), class_="zb-title")
    if before is None:
        return tag("section", title, tag("p", say("ui.preview.diff.none", lang), class_="zb-note"), class_="zb-block")
    found = [change for change in changes(before, after) if change[0] not in LOOSE]
    if not found:
        words = say("ui.preview.diff.same", lang, run=run)
        return tag("section", title, tag("p", words, class_="zb-note"), class_="zb-block")
    many = optimisations(found)
    advice = None
    if len(many) > 1:
        names = say("ui.list.comma", lang).join(field_label(key, lang) for key in many)
        words = say("ui.preview.diff.many", lang, n=len(many), names=names)
        advice = tag("div", tag("p", words), class_="zb-notice warning", role="note")
    rows = [
        (join((field_label(key, lang), " ", tag("code", key, class_="dim"))), setting(was), tag("b", setting(now)))
        for key, was, now in found
    ]
    head = [say(f"ui.preview.diff.{name}", lang) for name in ("field", "before", "now")]
    return tag(
        "section",
        title,
        tag("p", say("ui.preview.diff.with", lang, run=run), class_="zb-note"),
        advice,
        table(head, rows, caption=say("ui.preview.diff", lang)),
        class_="zb-block",
    )


def change_words(before: RunSpec, after: RunSpec, lang: Language) -> str:
    """The changes in a line: label, value before, value now."""
    pieces = [f"{field_label(key, lang)}: {setting(was)} → {setting(now)}" for key, was, now in changes(before, after)]
    return say("ui.list.semicolon", lang).join(pieces)


def _flat(value: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _flat(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner
