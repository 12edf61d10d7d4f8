"""The proof: what each rank really holds and where, against what the stage promises."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from zeroboard.contract.events import RankEvent
from zeroboard.contract.reports import Proof, RankProof
from zeroboard.messages import Language, say
from zeroboard.ui.views.markup import badge, empty, join, short_path, table, tag
from zeroboard.ui.views.numbers import mib

KIND = {"in effect": "pass", "partly": "warn", "not in effect": "fail"}


def proof(found: Proof | None, ranks: tuple[RankEvent, ...], lang: Language) -> Markup:
    """The measured table with its verdict; before it is measured, the ranks that are there."""
    if found is not None:
        return _measured(found, lang)
    if ranks:
        head = [say(f"ui.proof.head.{name}", lang) for name in ("rank", "host", "device", "pid")]
        body = [(r.rank, r.host, short_path(r.device, 20), r.pid) for r in sorted(ranks, key=lambda r: r.rank)]
        return tag("p", say("ui.proof.waiting", lang), class_="zb-note") + table(
            head, body, caption=say("ui.proof.ranks", lang)
        )
    return empty(say("ui.proof.empty.title", lang), say("ui.proof.empty.text", lang))


def _measured(found: Proof, lang: Language) -> Markup:
    columns = _columns(found)
    body = [_row(rank, found, columns, lang) for rank in found.ranks]
    if found.expected is not None:
        body.append(_promised(found, columns, lang))
    heads = [
        tag("span", say(f"ui.proof.head.{name}", lang), title=say(f"ui.proof.hint.{name}", lang))
        if name in HINTED
        else say(f"ui.proof.head.{name}", lang)
        for name in columns
    ]
    table_ = table(heads, body, caption=say("ui.proof.table", lang), numbers_from=columns.index("parameters"))
    verdict = tag(
        "p",
        badge(KIND[found.verdict], say(f"ui.proof.verdict.{found.verdict}", lang)),
        " ",
        say(found.says, lang, **found.params),
        class_="zb-verdict",
    )
    return join((verdict, table_, tag("p", say("ui.proof.legend", lang), class_="zb-note")))


HINTED = ("seen", "frozen", "offloaded", "nvme")
"""Columns whose heading is explained on hover."""


def _columns(found: Proof) -> list[str]:
    """Of each rank: who it is, what it calls itself, what it holds; what concerns none of them is left out."""
    optional = {
        "nvme": any(rank.nvme_bytes for rank in found.ranks),
        "frozen": any(rank.frozen_released is not None for rank in found.ranks),
    }
    names = ("rank", "host", "device", "pid", "seen", "engine", "stage", "frozen", "parameters", "gradients",
             "optimizer", "offloaded", "nvme", "peak")  # fmt: skip
    return [name for name in names if optional.get(name, True)]


def _row(rank: RankProof, found: Proof, columns: Sequence[str], lang: Language) -> list[object]:
    cells: dict[str, object] = {
        "rank": rank.rank,
        "host": rank.host,
        "device": short_path(rank.device, 20),
        "pid": rank.pid,
        "seen": _seen(found.seen.get(rank.rank), lang),
        "engine": say(f"ui.engine.{rank.engine}", lang),
        "stage": rank.stage or say("ui.stage.none", lang),
        "frozen": _frozen(rank.frozen_released, lang),
        "parameters": mib(rank.parameter_bytes, lang),
        "gradients": mib(rank.gradient_bytes, lang),
        "optimizer": mib(rank.optimizer_bytes, lang),
        "offloaded": mib(rank.offloaded_bytes, lang),
        "nvme": mib(rank.nvme_bytes, lang),
        "peak": mib(rank.peak_memory_bytes, lang),
    }
    return [cells[name] for name in columns]


def _promised(found: Proof, columns: Sequence[str], lang: Language) -> list[object]:
    expected = found.expected
    assert expected is not None
    cells: dict[str, object] = {
        "rank": tag("strong", say("ui.proof.promised", lang)),
        "parameters": mib(expected.parameter_bytes, lang),
        "gradients": mib(expected.gradient_bytes, lang),
        "optimizer": mib(expected.optimizer_bytes, lang),
        "offloaded": mib(expected.offloaded_bytes, lang),
    }
    return [tag("strong", cells[name]) if name in cells else "" for name in columns]


def _seen(value: bool | None, lang: Language) -> object:
    """Whether NVML saw that process on that GPU; a dash where NVML cannot tell."""
    if value is None:
        return tag("span", "–", class_="dim")
    return badge("pass" if value else "fail", say("ui.yes" if value else "ui.no", lang))


def _frozen(value: bool | None, lang: Language) -> object:
    if value is None:
        return tag("span", "–", class_="dim")
    return badge("pass" if value else "warn", say("ui.yes" if value else "ui.no", lang))
