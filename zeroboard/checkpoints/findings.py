"""Collects what the checks find. The same fault of many tensors or files becomes one line that names the first few."""

from __future__ import annotations

from zeroboard.contract.problems import Scalar
from zeroboard.contract.reports import CHECK_NAMES, Check, CheckVerdict

NAMED = 3
"""Culprits that a sentence names; the others are counted."""

_WORST_FIRST: tuple[CheckVerdict, ...] = ("fail", "warn", "pass", "skip")


class Findings:
    """The checks of one folder while they are being made.

    Sentences are `check.<name>.<what>`; they may use `{names}` (the first few culprits), `{count}`, and the parameters
    of the first one found.
    """

    def __init__(self) -> None:
        self._verdicts: dict[tuple[str, str], CheckVerdict] = {}
        self._params: dict[tuple[str, str], dict[str, Scalar]] = {}
        self._culprits: dict[tuple[str, str], list[str]] = {}

    def fail(self, name: str, says: str, culprit: str | None = None, **params: Scalar) -> None:
        self._add(name, says, "fail", culprit, params)

    def warn(self, name: str, says: str, culprit: str | None = None, **params: Scalar) -> None:
        self._add(name, says, "warn", culprit, params)

    def note(self, name: str, says: str, culprit: str | None = None, **params: Scalar) -> None:
        """Something to know that is no fault: a pass with a sentence of its own."""
        self._add(name, says, "pass", culprit, params)

    def skip(self, name: str, says: str, culprit: str | None = None, **params: Scalar) -> None:
        """The check could not be made, for the reason that the sentence gives."""
        self._add(name, says, "skip", culprit, params)

    def settle(self, *names: str, **params: Scalar) -> None:
        """A check that was made and found nothing passes, with the sentence `ok`."""
        for name in names:
            if not any(known == name for known, _ in self._verdicts):
                self._add(name, "ok", "pass", None, params)

    def faulty(self, *names: str) -> bool:
        """Whether one of these checks has failed or warned."""
        return any(v in ("fail", "warn") and name in names for (name, _), v in self._verdicts.items())

    def checks(self) -> tuple[Check, ...]:
        """In the order in which they are shown; within a name the worst first."""
        order = sorted(
            self._verdicts.items(),
            key=lambda item: (CHECK_NAMES.index(item[0][0]), _WORST_FIRST.index(item[1])),
        )
        return tuple(
            Check(name=key[0], verdict=verdict, says=_key(*key), params=self._filled(key)) for key, verdict in order
        )

    def _add(self, name: str, says: str, verdict: CheckVerdict, culprit: str | None, params: dict[str, Scalar]) -> None:
        key = (name, says)
        self._verdicts.setdefault(key, verdict)
        self._params.setdefault(key, {k: printable(v) if isinstance(v, str) else v for k, v in params.items()})
        if culprit is not None:
            self._culprits.setdefault(key, []).append(printable(culprit))

    def _filled(self, key: tuple[str, str]) -> dict[str, Scalar]:
        culprits = self._culprits.get(key)
        if culprits is None:
            return self._params[key]
        more = len(culprits) - NAMED
        names = ", ".join(culprits[:NAMED]) + (f" … (+{more})" if more > 0 else "")
        return {"names": names, "count": len(culprits), **self._params[key]}


def printable(text: str) -> str:
    """A name from a foreign folder, safe to print: one line, valid Unicode, not longer than 300 characters."""
    whole = text.encode("utf-8", errors="replace").decode("utf-8")
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in whole)
    return line if len(line) <= 300 else line[:299] + "…"


def _key(name: str, says: str) -> str:
    """Faults of a header come with the key of their exception."""
    return says if "." in says else f"check.{name}.{says}"
