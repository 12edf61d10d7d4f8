"""A run while it goes on and when it has ended: progress, and what went wrong."""

from __future__ import annotations

import time

from markupsafe import Markup

from zeroboard.contract.events import ErrorEvent, PhaseEvent
from zeroboard.contract.findings import Diagnosis, Finding
from zeroboard.contract.state import ENDED, LIVE, RunState
from zeroboard.messages import Language, has, say
from zeroboard.runs.snapshot import Snapshot
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import badge, empty, join, press, problem_item, rows, sentences, tag

TRACK = ("starting", "running", "verifying", "finished")
"""The stations of a run that goes well, drawn as a line."""
STOPS = {"save": ("asked", "saving", "verifying", "stopped"), "discard": ("asked", "leaving", "stopped")}
"""The stations of a stop, by what was asked for."""
SOME = 8
"""Tracebacks that are shown."""
FORCED = "run.failed.stop-forced"
UNITS = ("seconds", "minutes", "hours")
"""The forms of a duration (`ui.duration.*`)."""

STATE_KIND = {"finished": "pass", "failed": "fail", "stopped": "warn", "lost": "fail", "stopping": "warn"}


def nothing(lang: Language) -> Markup:
    """No run is open."""
    button = press("zb-faces", say("ui.button.set-up", lang))
    return empty(say("ui.live.empty.title", lang), say("ui.live.empty.text", lang), button)


def progress(shown: Snapshot, lang: Language, now: float | None = None) -> Markup:
    """Name, state, bar, step, ETA and speed; the same height in every state."""
    now = time.time() if now is None else now
    run = shown.state
    share, words = _where(shown, lang)
    last = shown.last
    title = tag(
        "div",
        tag("h2", run.name or run.id),
        badge(STATE_KIND.get(run.state, "live"), say(f"ui.state.{run.state}", lang)),
        tag("code", run.id, class_="dim") if run.name else None,
        class_="zb-title head",
    )
    known = share is not None
    bar = tag(
        "div",
        tag(
            "div",
            "",
            class_="fill" if known else "fill unknown",
            style=f"transform:scaleX({share or 0:.4f})" if known else None,
        ),
        class_=f"zb-progress {STATE_KIND.get(run.state, '')}",
        role="progressbar",
        aria_valuemin="0",
        aria_valuemax="100",
        aria_valuenow=f"{100 * share:.0f}" if share is not None else None,
        aria_label=words,
    )
    facts = [
        (say("ui.live.step", lang), f"{run.step:,} / {run.steps:,}" if run.steps else "–"),
        (say("ui.live.eta", lang), _left(shown, now, lang)),
        (say("ui.live.epoch", lang), f"{last.epoch:.2f}" if last else "–"),
        (say("ui.live.loss", lang), numbers.loss(last.loss, lang) if last else "–"),
        (say("ui.live.tokens", lang), f"{last.tokens_per_s:,.0f}" if last and last.tokens_per_s is not None else "–"),
        (say("ui.live.step-time", lang), f"{last.step_time:.2f} s" if last else "–"),
        (say("ui.live.took", lang), _took(shown, now, lang)),
    ]
    if shown.cost is not None:
        facts.append((tag("span", say("ui.live.cost", lang), title=say("ui.live.cost.hint", lang)), _cost(shown)))
    return tag(
        "div", title, _way(shown, lang), bar, tag("p", words, class_="zb-now", role="status"), rows(facts, "zb-figures")
    )


def _way(shown: Snapshot, lang: Language) -> Markup:
    """The stations of the run, or of the stop that was asked for."""
    run = shown.state
    if run.stop is None or run.state == "finished":
        return _track(run, lang)
    names = STOPS[run.stop]
    forced = run.problem is not None and run.problem.message_key == FORCED
    if forced:
        names = (*names[:-1], "forced")
    reached = stop_station(shown)
    at = len(names) - 1 if run.state in ENDED else names.index(reached) if reached in names else 0
    dots = []
    for number, name in enumerate(names):
        done = number < at or run.state == "stopped"
        kind = "bad" if run.state in ("failed", "lost") else "now"
        dots.append(
            tag(
                "li",
                say(f"ui.stop.stage.{name}", lang),
                class_="done" if done else kind if number == at else None,
                aria_current="step" if number == at else None,
            )
        )
    return tag("ol", *dots, class_="zb-track")


def stop_station(shown: Snapshot) -> str:
    """How far a stop has come: asked, saving (or leaving), verifying."""
    run = shown.state
    if run.state == "verifying":
        return "verifying"
    if run.stop == "discard":
        return "leaving"
    return "saving" if any(save.time >= run.changed for save in shown.saves) else "asked"


def _track(run: RunState, lang: Language) -> Markup:
    """Where on its way the run is."""
    place = {"saving": "running", "queued": "starting", "planned": "", "stopping": "running"}.get(run.state, run.state)
    broken = run.state in ("failed", "lost", "stopped")
    if broken:
        place = "running" if run.step else "starting"
    reached = TRACK.index(place) if place in TRACK else -1
    dots = []
    for at, name in enumerate(TRACK):
        done = run.state == "finished" or at < reached
        dots.append(
            tag(
                "li",
                say(f"ui.track.{name}", lang),
                class_="done" if done else ("bad" if broken else "now") if at == reached else None,
                aria_current="step" if at == reached else None,
            )
        )
    return tag("ol", *dots, class_="zb-track")


def _where(shown: Snapshot, lang: Language) -> tuple[float | None, str]:
    """(share of the bar or None for unknown, what is being done)."""
    run = shown.state
    if run.state in ENDED or run.state in ("planned", "lost"):
        full = 1.0 if run.state == "finished" else (run.step / run.steps if run.steps else 0.0)
        return full, _end_words(shown, lang)
    if run.state == "stopping":
        key = {"saving": "saving", "leaving": "discard"}.get(stop_station(shown), "asked")
        return (run.step / run.steps if run.steps else None), say(f"ui.now.stop.{key}", lang)
    if run.state in ("running", "saving") and run.steps:
        key = "ui.now.saving" if run.state == "saving" else "ui.now.running" if run.step else "ui.now.first-step"
        return run.step / run.steps, say(key, lang, step=run.step, steps=run.steps)
    phase = shown.phase
    begun = phase is not None and (run.state != "verifying" or phase.phase in ("verify", "load"))
    if phase is not None and begun and run.state in ("starting", "running", "verifying"):
        return phase.done, _phase_words(phase, shown.phase_since, lang)
    if run.state == "starting" and run.phase is not None:
        return run.phase_done, say(f"ui.now.phase.{run.phase}", lang)
    return None, say(f"ui.now.{run.state}", lang)


def _end_words(shown: Snapshot, lang: Language) -> str:
    """How it ended, and what the verification says of what came out."""
    run, report = shown.state, shown.report
    words = say(f"ui.now.{run.state}", lang)
    if report is not None and run.state in ("finished", "stopped"):
        outcome = say(f"ui.outcome.report.{report.verdict}", lang, kind=say(f"ui.kind.{report.kind}", lang))
        return sentences((words, outcome), lang)
    return words


def _phase_words(phase: PhaseEvent, since: float | None, lang: Language) -> str:
    words = [say(f"ui.now.phase.{phase.phase}", lang)]
    if phase.says and has(phase.says, lang):
        words.append(say(phase.says, lang, **phase.params))
    left = phase_left(phase, since)
    if left is not None:
        words.append(say("ui.now.eta", lang, time=numbers.duration(left, lang)))
    return sentences(words, lang)


def phase_left(phase: PhaseEvent, since: float | None) -> float | None:
    """Seconds that the phase will take still, by what it took so far; None before a twentieth of it is done.

    None for the launch as well: its shares are stations that take very different times, with nothing said in between.
    """
    if phase.phase == "launch" or phase.done is None or since is None or not 0.05 <= phase.done < 1.0:
        return None
    return (phase.time - since) * (1 - phase.done) / phase.done


def _took(shown: Snapshot, now: float, lang: Language) -> Markup:
    """From its start to its end; while it goes on, a clock that runs in the browser."""
    state = shown.state
    if state.started is None:
        return tag("span", "–")
    if state.ended is not None or state.state not in LIVE:
        return tag("span", numbers.duration(shown.elapsed, lang))
    return clock(max(0.0, now - state.started), 1, lang)


def _left(shown: Snapshot, now: float, lang: Language) -> Markup:
    """How long the training will still take: counted down in the browser until the next word."""
    if shown.eta_s is None:
        return tag("span", "–")
    return clock(max(0.0, shown.eta_s - max(0.0, now - shown.heard)), -1, lang)


def _cost(shown: Snapshot) -> str:
    """So far, and of the whole training."""
    whole = shown.cost_expected
    return f"{shown.cost:,.2f} / " + ("–" if whole is None else f"{whole:,.2f}")


def clock(seconds: float, pace: int, lang: Language) -> Markup:
    """A duration that the page's script carries on by itself; `pace` -1 counts down."""
    forms = {f"data_{unit[0]}": say(f"ui.duration.{unit}", lang, h="{h}", m="{m}", s="{s}") for unit in UNITS}
    return tag("span", numbers.duration(seconds, lang), data_clock=f"{seconds:.1f}", data_pace=pace, **forms)


def outcome(shown: Snapshot, lang: Language, found: Diagnosis | None = None) -> Markup:
    """What went wrong: the root cause where it was found, and the way to it; else the problem in words, with the
    tracebacks folded away. Empty where nothing did.
    """
    run = shown.state
    root = next((f for f in found.findings if f.code == found.root), None) if found is not None else None
    if root is not None:
        return _root(root, lang)
    parts: list[object] = []
    if run.problem is not None:
        parts.append(tag("ul", problem_item(run.problem, lang), class_="zb-problems"))
    parts.extend(error(e, lang) for e in shown.errors[:SOME])
    if not parts:
        return join(())
    if run.state in ("failed", "lost"):
        parts.append(press("zb-findings-tab-button", say("ui.findings.see", lang)))
    return tag("div", join(parts), class_="zb-notice error plain")


def _root(root: Finding, lang: Language) -> Markup:
    """The sentence alone: its line, what to do and the tracebacks stand in Findings, where the button leads."""
    rank = None if root.rank is None else tag("b", say("ui.logs.rank", lang, rank=root.rank), " ")
    return tag(
        "div",
        badge("fail", say("ui.findings.root", lang)),
        tag("p", rank, say(root.says, lang, **root.params)),
        press("zb-findings-tab-button", say("ui.findings.see", lang)),
        class_="zb-notice error zb-root",
        role="alert",
    )


def error(event: ErrorEvent, lang: Language) -> Markup:
    """A rank's exception, its traceback folded."""
    return tag(
        "details",
        tag(
            "summary",
            badge("fail", say("ui.error.rank", lang, rank=event.rank)),
            tag("code", f"{event.type}: {event.message}"[:300]),
        ),
        tag("pre", event.traceback, class_="zb-code", tabindex="0"),
        class_="zb-error",
    )
