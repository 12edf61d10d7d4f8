"""The proof: what each rank really holds, against what the stage promises."""

from __future__ import annotations

from markupsafe import Markup

from zeroboard.contract.events import RankEvent
from zeroboard.contract.reports import Proof
from zeroboard.messages import Language, say
from zeroboard.ui.views.markup import badge, empty, join, short_path, table, tag
from zeroboard.ui.views.numbers import mib

_KIND = {"in effect": "pass", "partly": "warn", "not in effect": "fail"}


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
    names = (
        "rank",
        "host",
        "device",
        "pid",
        "engine",
        "stage",
        "parameters",
        "gradients",
        "optimizer",
        "offloaded",
        "peak",
    )
    body: list[tuple[object, ...]] = [
        (
            r.rank,
            r.host,
            short_path(r.device, 20),
            r.pid,
            say(f"ui.engine.{r.engine}", lang),
            r.stage or say("ui.stage.none", lang),
            mib(r.parameter_bytes, lang),
            mib(r.gradient_bytes, lang),
            mib(r.optimizer_bytes, lang),
            mib(r.offloaded_bytes, lang),
            mib(r.peak_memory_bytes, lang),
        )
        for r in found.ranks
    ]
    if found.expected is not None:
        e = found.expected
        promised = tag("strong", say("ui.proof.promised", lang))
        sums = (e.parameter_bytes, e.gradient_bytes, e.optimizer_bytes, e.offloaded_bytes)
        body.append((promised, "", "", "", "", "", *(tag("strong", mib(value, lang)) for value in sums), ""))
    table_ = table(
        [say(f"ui.proof.head.{name}", lang) for name in names],
        body,
        caption=say("ui.proof.table", lang),
        numbers_from=5,
    )
    verdict = tag(
        "p",
        badge(_KIND[found.verdict], say(f"ui.proof.verdict.{found.verdict}", lang)),
        " ",
        say(found.says, lang, **found.params),
        class_="zb-verdict",
    )
    return join((verdict, table_, tag("p", say("ui.proof.legend", lang), class_="zb-note")))
