"""Which of the things that were seen began it: the first real exception of the rank that failed first.

Covered: what is told about time (events, torchrun's report, the lines' own times, their order), echoes of other ranks,
chains of exceptions, what the machine says before Python does. Not covered: a cause that no line speaks of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zeroboard.diagnosis.launcher import Exit
from zeroboard.diagnosis.matching import DATA, GENERIC
from zeroboard.diagnosis.sightings import Sighting

KILLED = frozenset({4, 7, 8, 9, 11})
"""Signals that a process does not send to itself (an abort is the end of something that was told before)."""


def is_generic(sighting: Sighting) -> bool:
    """No rule names it."""
    return sighting.rule in (GENERIC, DATA)


def chains(sightings: Iterable[Sighting]) -> list[Sighting]:
    """Of exceptions that were raised while others were handled, the one to tell: the first that a rule knows as a
    cause, or else the first."""
    groups: dict[tuple[str, int | None, int], list[Sighting]] = {}
    told: list[Sighting] = []
    for sighting in sightings:
        if sighting.raised:
            groups.setdefault((sighting.line.file, sighting.line.rank, sighting.chain), []).append(sighting)
        else:
            told.append(sighting)
    for group in groups.values():
        group.sort(key=lambda s: s.order)
        known = [s for s in group if s.rule.role == "cause" and not is_generic(s)]
        told.append((known or group)[0])
    return told


def first_cause(sightings: Sequence[Sighting], exits: Sequence[Exit]) -> Sighting | None:
    """The cause among what was seen (chains told, what was survived left out); None where nothing can be one."""
    causes = [s for s in sightings if s.rule.role == "cause"]
    raised = [s for s in causes if s.raised and not s.aside] or [s for s in causes if s.raised]
    signs = [s for s in causes if not s.raised]
    began = _of_first_rank(_by_rank(raised), exits)
    sign = _earliest(signs)
    if sign is None or began is None:
        return sign or began
    if began.rule.code == sign.rule.code or is_generic(began) or began.rule.code in sign.rule.explains:
        return sign
    return began


def first_late(sightings: Sequence[Sighting], exits: Sequence[Exit]) -> Sighting | Exit | None:
    """What shows late, where no cause was found: a timeout, a stop by hand, a process that was killed."""
    late = _earliest([s for s in sightings if s.rule.role == "late"])
    ended = [e for e in exits if e.signal is not None and e.signal != 15]
    reported = [e for e in ended if e.first]
    killed = [e for e in reported or ended if e.signal in KILLED]
    stopped = late is not None and late.rule.code in ("stopped-by-user", "killed-by-signal")
    if killed and not stopped:
        return _with_rank(killed)
    return late or (_with_rank(reported or ended) if ended else None)


def killed_first(cause: Sighting | None, sightings: Sequence[Sighting], exits: Sequence[Exit]) -> Exit | None:
    """The kill that came before exceptions which no rule knows: the others only miss the one that was killed."""
    if cause is None or not is_generic(cause):
        return None
    first = next((e for e in exits if e.first and e.signal in KILLED), None)
    if first is None or any(s.raised and s.rank == first.rank and s.rule.role == "cause" for s in sightings):
        return None
    return first


def _by_rank(raised: Iterable[Sighting]) -> list[Sighting]:
    """Of each rank its first exception; one that a rule knows goes before one that none does."""
    picked: dict[tuple[str, int | None], Sighting] = {}
    for sighting in sorted(raised, key=lambda s: (is_generic(s), s.order)):
        key = ("", sighting.rank) if sighting.rank is not None else (sighting.line.file, None)
        picked.setdefault(key, sighting)
    return list(picked.values())


def _of_first_rank(candidates: list[Sighting], exits: Sequence[Exit]) -> Sighting | None:
    if not candidates:
        return None
    if all(s.exact for s in candidates):
        return min(candidates, key=lambda s: (s.time or 0.0, s.order))
    blamed = {e.rank for e in exits if e.first}
    for sighting in candidates:
        if sighting.rank is not None and sighting.rank in blamed:
            return sighting
    if len({s.line.file for s in candidates}) > 1 and all(s.time is not None for s in candidates):
        return min(candidates, key=lambda s: (s.time or 0.0, s.order))
    return min(candidates, key=lambda s: s.order)


def _earliest(sightings: Sequence[Sighting]) -> Sighting | None:
    if not sightings:
        return None
    if len({s.line.file for s in sightings}) > 1 and all(s.time is not None for s in sightings):
        return min(sightings, key=lambda s: (s.time or 0.0, s.order))
    return min(sightings, key=lambda s: s.order)


def _with_rank(exits: Sequence[Exit]) -> Exit:
    """The same end is told several times; the line that names the rank is the best."""
    first = min(exits, key=lambda e: (not e.first, e.order))
    named = [e for e in exits if e.rank is not None and e.code == first.code]
    return first if first.rank is not None or not named else named[0]
