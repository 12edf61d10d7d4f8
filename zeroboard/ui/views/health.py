"""Is it well? The proof, what was noticed and the GPUs in a line, each leading to where more is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from zeroboard.contract.findings import Diagnosis
from zeroboard.contract.reports import Proof
from zeroboard.messages import Language, say
from zeroboard.ui.views.findings import BENIGN
from zeroboard.ui.views.markup import MARKS, badge, tag
from zeroboard.ui.views.proof import KIND


def health(
    proof: Proof | None,
    found: Diagnosis,
    troubles: Mapping[str, Sequence[str]] | None,
    lang: Language,
    *,
    alive: bool,
    gpus: int = 0,
) -> Markup:
    """`troubles`: what is wrong with GPUs, in words, and with which of them (None: the driver tells nothing); `gpus`:
    how many the open run has.

    `alive`: the run goes on; of one that has ended nothing is said about GPUs, and none is good news only then.
    """
    chips = [_proof(proof, lang), _found(found, lang, alive)]
    if alive:
        chips.extend(_gpus(troubles, gpus, lang))
    return tag("div", *chips, class_="zb-health", role="group", aria_label=say("ui.health.title", lang))


def _proof(proof: Proof | None, lang: Language) -> Markup:
    if proof is None:
        return _lead("skip", say("ui.health.proof.none", lang), "zb-proof-tab-button")
    verdict = say(f"ui.proof.verdict.{proof.verdict}", lang)
    return _lead(KIND[proof.verdict], say("ui.health.proof", lang, verdict=verdict), "zb-proof-tab-button")


def _found(found: Diagnosis, lang: Language, alive: bool) -> Markup | None:
    """The worst of what was found, and how many more there are."""
    told = [f for f in found.findings if f.code != BENIGN and f.severity != "info"]
    if not told:
        return _lead("pass", say("ui.findings.none.live.title", lang), "zb-findings-tab-button") if alive else None
    if found.root is not None:  # the box of the outcome says it
        return None
    first = min(told, key=lambda f: f.severity != "error")
    words = say(first.says, lang, **first.params)
    if len(told) > 1:
        words = say("ui.health.found.more", lang, first=words, n=len(told) - 1)
    return _lead("fail" if first.severity == "error" else "warn", words, "zb-findings-tab-button")


def _gpus(troubles: Mapping[str, Sequence[str]] | None, gpus: int, lang: Language) -> list[Markup]:
    if not gpus:
        return []
    if troubles is None:
        return [badge("skip", say("ui.gpu.none-told", lang))]
    if not troubles:
        return [badge("pass", say("ui.health.gpus", lang, n=gpus))]
    told = ((what, ", ".join(which)) for what, which in troubles.items())
    return [badge("warn", say("ui.health.gpus.some", lang, what=what, gpus=which)) for what, which in told]


def _lead(kind: str, words: str, to: str) -> Markup:
    """A badge that leads to a tab."""
    mark = tag("span", MARKS[kind], aria_hidden="true", class_="mark")
    text = tag("span", words, class_="words")
    return tag("button", mark, text, type="button", class_=f"zb-badge lead {kind}", data_press=to, title=words)
