"""What was found: the root cause first, the line that shows it, and what would mend it as buttons."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from markupsafe import Markup

from zeroboard.contract.events import ErrorEvent
from zeroboard.contract.findings import Evidence, Finding, Remedy
from zeroboard.contract.problems import Scalar
from zeroboard.messages import Language, has, say
from zeroboard.ui.views.live import SOME, error
from zeroboard.ui.views.markup import badge, empty, field_label, join, severity_word, tag

BENIGN = "benign"
"""Code of the finding about noise that looks bad and is harmless."""


def findings(
    found: Sequence[Finding],
    root: str | None,
    lang: Language,
    *,
    alive: bool = False,
    run_id: str = "",
    base: str = "",
    errors: Sequence[ErrorEvent] = (),
) -> Markup:
    """All of them, the root cause marked, and the tracebacks of the ranks folded below it. `alive`: the run goes on, so
    that none is good news.

    A remedy's button says which one it is (code and rank of the finding, and its number); nothing is started by it.
    """
    if not found:
        kind = "live" if alive else "ended"
        return empty(say(f"ui.findings.none.{kind}.title", lang), say(f"ui.findings.none.{kind}.text", lang))
    items = [_finding(f, f.code == root, lang, run_id, base) for f in found]
    return tag("ul", *items, class_="zb-findings") + join(error(e, lang) for e in errors[:SOME])


def count(found: Sequence[Finding]) -> int:
    """How many of them are worth a look."""
    return sum(1 for f in found if f.code != BENIGN and f.severity != "info")


def _finding(found: Finding, root: bool, lang: Language, run_id: str, base: str) -> Markup:
    mark = _mark(found, root, lang)
    rank = None if found.rank is None else tag("span", say("ui.logs.rank", lang, rank=found.rank), class_="dim")
    echoes = None
    if found.echoes:
        echoes = tag("p", say("ui.findings.echoes", lang, n=found.echoes), class_="zb-note")
    remedies = [_remedy(r, n, lang) for n, r in enumerate(found.remedies)]
    return tag(
        "li",
        tag("div", mark, rank, tag("code", found.code, class_="dim"), class_="zb-title head"),
        tag("p", say(found.says, lang, **found.params), class_="words"),
        _evidence(found.evidence, lang, run_id, base) if found.evidence is not None else None,
        echoes,
        tag("ol", *remedies, class_="zb-remedies") if remedies else None,
        class_="zb-finding root" if root else "zb-finding",
        data_code=found.code,
        data_rank=found.rank,
    )


def remedy_of(found: Sequence[Finding], code: object, rank: object, number: object) -> Remedy | None:
    """The remedy that a button names, as long as it is still there."""
    for finding in found:
        named = finding.code == code and str(finding.rank) == str(rank)
        if named and isinstance(number, int) and 0 <= number < len(finding.remedies):
            return finding.remedies[number]
    return None


def _mark(found: Finding, root: bool, lang: Language) -> Markup:
    if found.code == BENIGN:
        return badge("skip", say("ui.findings.benign", lang))
    if root:
        return badge("fail", say("ui.findings.root", lang))
    return badge(found.severity, severity_word(found.severity, lang))


def _evidence(evidence: Evidence, lang: Language, run_id: str, base: str) -> Markup:
    """File, line and text; the file is a link where it is a log of this run."""
    place = evidence.file if evidence.line is None else f"{evidence.file}:{evidence.line}"
    name = log_name(evidence.file)
    where: Markup = tag("code", place)
    if run_id and name:
        where = tag("a", where, href=f"{base}/files/runs/{quote(run_id)}/logs/{quote(name)}", download=True)
    return tag(
        "figure",
        tag("figcaption", say("ui.findings.evidence", lang), " ", where),
        tag("pre", evidence.text, class_="zb-code wrap", tabindex="0"),
        class_="zb-evidence",
    )


def log_name(file: str) -> str | None:
    """The name of a run's log by its file (`logs/rank_0.log` is `rank 0`); None for a file that is no log."""
    stem, dot, ending = file.rpartition("/")[2].rpartition(".")
    return stem.replace("_", " ") if dot and ending == "log" else None


def _remedy(remedy: Remedy, number: int, lang: Language) -> Markup:
    """What to do; where fields of the form can do it, a button that sets them, with what it would set."""
    words = say(remedy.says, lang, **remedy.params) if has(remedy.says, lang) else remedy.says
    if not remedy.set:
        return tag("li", tag("span", words))
    change = say("ui.list.comma", lang).join(
        f"{field_label(k, lang)} = {_shown(v, lang)}" for k, v in remedy.set.items()
    )
    button = tag(
        "button",
        say("ui.findings.set", lang),
        type="button",
        class_="zb-press",
        data_remedy=number,
        aria_label=f"{say('ui.findings.set', lang)}: {words}",
    )
    return tag("li", tag("span", join((words, tag("span", change, class_="dim")), " ")), button)


def _shown(value: Scalar, lang: Language) -> str:
    if isinstance(value, bool):
        return say("ui.yes" if value else "ui.no", lang)
    return say("ui.form.empty", lang) if value is None else str(value)
