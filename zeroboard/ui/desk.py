"""What the tabs of one page share: language, wiring, and the few values that a browser carries."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from zeroboard.contract.plan import Plan
from zeroboard.errors import BrokenFile, NotFound
from zeroboard.messages import Language, say
from zeroboard.paths import Paths
from zeroboard.ui.shared import Shared
from zeroboard.ui.views import header
from zeroboard.ui.wiring import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Made once a language; its components belong to that page."""

    shared: Shared
    lang: Language
    base: str
    """Path before our routes, behind a proxy; else empty."""
    wire: Wire
    chips: gr.HTML
    """Right half of the header."""
    tabs: gr.Tabs
    faces: gr.Tabs
    """The faces of the Train tab: setup, live, runs."""
    run: gr.State
    """Id of the run that is open here; "" for none."""
    written: gr.State
    """What Preview or Start wrote last: `Written`, or None."""
    kept: gr.BrowserState
    """What stood in the form last, kept by the browser itself: `{"values": {key: value}}`, or empty."""
    reopened: gr.State
    """Whether the form shows what was kept, or what the user has typed since: then nothing is put back any more."""
    seen: gr.State
    """Slot of the live view → what this browser was sent last."""

    @property
    def paths(self) -> Paths:
        return self.shared.paths

    def say(self, key: str, **params: object) -> str:
        return say(key, self.lang, **params)

    def plan_of(self, run_id: str) -> Plan | None:
        """The plan in a run's folder; None where that is broken, or gone: one never started goes after a day."""
        try:
            return self.shared.snapshot(run_id).plan
        except (NotFound, BrokenFile):
            return None

    def header(self, run_id: str) -> str:
        """The header's right half as it stands now."""
        return str(
            header.chips(
                host=self.shared.host.get(),
                live=self.shared.live(),
                run_id=run_id,
                lang=self.lang,
                base=self.base,
                logout=self.shared.login,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A run's folder that this browser had written."""

    run_id: str
    stamp: str
    """Of the form that it was made from."""
    started: bool = False
    failed: int = 0
    """How many checks failed when it was previewed: while one does, nothing is started."""
