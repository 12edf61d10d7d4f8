"""What lasts, told from what flickers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Latch:
    """On after something held for `after`, off after it did not for `clears`: seconds, or whatever `now` counts."""

    after: float
    clears: float
    on: bool = False
    _since: float | None = None
    """Since when it is not what `on` says."""

    def see(self, holds: bool, now: float) -> bool:
        """What is so now; returns whether the latch is on."""
        if holds is self.on:
            self._since = None
            return self.on
        if self._since is None:
            self._since = now
        if now - self._since >= (self.clears if self.on else self.after):
            self.on, self._since = holds, None
        return self.on
