"""Where several machines meet, and what the launcher is told."""

from __future__ import annotations

import pytest
from torch.distributed.run import parse_args

from tests.planning.facts import host, spec
from zeroboard.contract.spec import DeviceSpec
from zeroboard.planning.choices import choose_devices
from zeroboard.planning.command import argv, environment, place


@pytest.mark.parametrize(
    ("given", "meets"),
    [
        ("", "lab-1:29400"),
        ("node-7", "node-7:29400"),
        ("10.0.0.1:2345", "10.0.0.1:2345"),
        ("node_7.example.org:1", "node_7.example.org:1"),
        ("node-7:0", None),
        ("node-7:65536", None),
        ("node 7", None),
        ("$(reboot)", None),
        ("node-7:12:13", None),
    ],
)
def test_a_place_is_a_name_and_a_port_or_none(given: str, meets: str | None) -> None:
    wish = spec().model_copy(update={"devices": DeviceSpec(nodes=2, rendezvous=given)})
    found = place(wish, host(hostname="lab-1"))
    assert (str(found) if found is not None else None) == meets


def test_torchrun_understands_the_command_of_several_machines() -> None:
    wish, here = spec("devices.nodes=3"), host(2, hostname="lab-1")
    devices, meet = choose_devices(wish, here), place(wish, here)
    assert (devices.ranks, devices.local) == (6, 2)
    args = parse_args(list(argv("python", devices, "/run", run="r", meet=meet)[3:]))
    assert (args.nnodes, args.nproc_per_node, args.rdzv_backend) == ("3", "2", "c10d")
    assert (args.rdzv_endpoint, args.rdzv_id, args.standalone) == ("lab-1:29400", "r", False)
    assert environment(devices, here, "r", meet=meet)["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_gloo_looks_outside_where_the_other_ranks_are() -> None:
    here = host(hostname="lab-1")
    for rendezvous, inside in (("127.0.0.1:1", True), ("lab-1:1", False)):
        wish = spec("devices.nodes=2", f"devices.rendezvous={rendezvous}")
        env = environment(choose_devices(wish, here), here, "r", meet=place(wish, here))
        assert ("GLOO_SOCKET_IFNAME" in env) is inside
