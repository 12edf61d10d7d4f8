"""The header: name, machine, live run, language."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlencode

from markupsafe import Markup

from zeroboard.contract.host import HostFacts
from zeroboard.contract.state import RunState
from zeroboard.messages import LANGUAGES, Language, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import tag


def brand(logo: str, lang: Language) -> Markup:
    """Logo (our own SVG text) and name."""
    return tag(
        "div",
        tag("span", Markup(logo), class_="logo", aria_hidden="true"),
        tag("h1", "ZeroBoard"),
        tag("span", say("ui.tagline", lang), class_="tagline"),
        class_="zb-brand",
    )


def machine(host: HostFacts, ranks: int | None, lang: Language) -> str:
    """The machine in a few words: `2 × H100 80GB HBM3 · driver 580`, or `CPU · 2 ranks`."""
    if not host.gpus:
        return say("ui.machine.cpu", lang, ranks=ranks or 2, cores=host.cpu_count)
    names = Counter(gpu.name or "GPU" for gpu in host.gpus)
    cards = " + ".join(f"{n} × {name.removeprefix('NVIDIA ')}" for name, n in names.items())
    return say("ui.machine.gpus", lang, cards=cards, driver=host.driver or say("ui.none", lang))


def chips(
    *, host: HostFacts, live: tuple[RunState, ...], run_id: str, lang: Language, base: str, logout: bool = False
) -> Markup:
    """Machine, live runs (each a link that opens it), the other language, which keeps the run in view; the way out."""
    runs = [
        tag(
            "a",
            tag("span", "", class_="pulse", aria_hidden="true"),
            tag("span", run.name or run.id, class_="who"),
            tag("span", run_words(run, lang), class_="num"),
            href="?" + urlencode({"run": run.id}),
            class_="zb-chip live",
            title=say("ui.chip.open", lang),
        )
        for run in live[:1]
    ]
    if len(live) > 1:
        runs.append(tag("span", f"+{len(live) - 1}", class_="zb-chip more", title=say("ui.chip.more", lang)))
    return tag(
        "div",
        *runs,
        tag("span", machine(host, None, lang), class_="zb-chip machine", title=host.hostname),
        languages(run_id, lang, base),
        leave(lang, base) if logout else None,
        class_="zb-chips",
        data_zb_run=run_id,
    )


def run_words(run: RunState, lang: Language) -> str:
    """Where a run stands, in a few words."""
    state = say(f"ui.state.{run.state}", lang)
    if run.state in ("running", "saving") and run.steps:
        return say("ui.chip.step", lang, state=state, step=run.step, steps=run.steps)
    if run.state == "starting" and run.phase:
        phase = say(f"ui.phase.{run.phase}", lang)
        return phase if run.phase_done is None else f"{phase} {numbers.percent(run.phase_done, lang)}"
    return state


def leave(lang: Language, base: str) -> Markup:
    """The button that logs out."""
    button = tag("button", say("ui.login.leave", lang), type="submit", class_="zb-chip")
    return tag("form", button, method="post", action=f"{base}/logout", class_="zb-leave")


def languages(run_id: str, lang: Language, base: str) -> Markup:
    """The switch: a link each, the current one marked. `base` is the path before the routes (behind a proxy)."""
    query = "?" + urlencode({"run": run_id}) if run_id else ""
    return tag(
        "nav",
        *(
            tag(
                "a",
                say("ui.language", other),
                href=f"{base}/language/{other}{query}",
                lang=other,
                aria_current="true" if other == lang else None,
            )
            for other in LANGUAGES
        ),
        class_="zb-languages",
        aria_label=say("ui.language.choose", lang),
    )
