"""What this machine has, and which of its devices a run holds."""

from __future__ import annotations

from zeroboard.contract.host import HostFacts
from zeroboard.monitor.host import host_facts
from zeroboard.paths import Paths
from zeroboard.runs.locks import holders


def facts(paths: Paths) -> HostFacts:
    """The host's facts with the locks in them."""
    return host_facts(paths).model_copy(update={"held": holders(paths)})
