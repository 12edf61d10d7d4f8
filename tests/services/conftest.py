"""What tests of several services share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.hub import TOKEN, Hub, hub
from zeroboard.services import fetching


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A stand-in of the hub that this process takes for the hub; `TOKEN` opens what is gated."""
    for name in ("HF_TOKEN", *fetching.OFFLINE):
        monkeypatch.delenv(name, raising=False)
    with hub(TOKEN) as stand_in:
        monkeypatch.setenv("HF_ENDPOINT", stand_in.endpoint)
        yield stand_in
