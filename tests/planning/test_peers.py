"""Which cards need NCCL's switches."""

from __future__ import annotations

import pytest

from tests.planning.facts import gpus
from zeroboard.planning.peers import numbers, without_p2p


@pytest.mark.parametrize(
    ("name", "count", "driver", "off"),
    [
        ("NVIDIA GeForce RTX 4090", 2, "545.23.08", True),
        ("NVIDIA GeForce RTX 4070 Ti", 2, None, True),
        ("NVIDIA GeForce RTX 4090", 2, "550.40.07", False),
        ("NVIDIA GeForce RTX 4090", 1, "545.23.08", False),
        ("NVIDIA GeForce RTX 3090", 2, "545.23.08", False),
        ("NVIDIA H100 80GB HBM3", 8, "545.23.08", False),
        (None, 2, "545.23.08", False),
    ],
)
def test_several_cards_of_that_kind_under_an_old_driver(
    name: str | None, count: int, driver: str | None, off: bool
) -> None:
    assert without_p2p(gpus(count, name=name), driver) is off


def test_a_version_that_is_not_written_in_numbers_is_none() -> None:
    assert numbers("550.54.15") == (550, 54, 15) and numbers("550.54-rc") is None and numbers(None) is None
