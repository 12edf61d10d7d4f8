"""What the rules look at: one value that is made for each plan."""

from __future__ import annotations

from dataclasses import dataclass

from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import Dtype, ModelFacts, Promise, TokenFacts
from zeroboard.contract.reports import DataReport
from zeroboard.contract.spec import RunSpec
from zeroboard.contract.toolchain import Toolchain
from zeroboard.planning.choices import Devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that a rule may look at."""

    spec: RunSpec
    host: HostFacts
    devices: Devices
    dtype: Dtype
    model: ModelFacts | None
    data: DataReport | None
    tokens: TokenFacts | None
    trainable: int | None
    """Elements that are trained; None: not known yet."""
    promise: Promise | None = None
    """What each rank will hold; None: not known yet."""
    steps: int | None = None
    """Optimizer steps; None: not known yet."""
    toolchain: Toolchain | None = None
    """What DeepSpeed's operator builders say; None: nobody has asked."""
    swap: FolderFacts | None = None
    """The folder that states are swapped to; None: none is named, or it was not looked at."""
