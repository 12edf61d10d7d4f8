"""The launch command and its environment: torchrun on one machine, or one agent of it on each of several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from zeroboard.contract.host import GpuFacts, HostFacts
from zeroboard.contract.spec import RunSpec
from zeroboard.planning.choices import Devices
from zeroboard.planning.peers import P2P_SWITCHES, without_p2p

PORT = 29400
"""Where agents of several machines meet unless told otherwise (torchrun's own default)."""
LOOPBACK = ("127.0.0.1", "localhost")
_PLACE = re.compile(r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the agents of several machines meet."""

    host: str
    port: int

    @property
    def local(self) -> bool:
        """Nobody from another machine can come here: all agents run on this one."""
        return self.host in LOOPBACK

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def place(spec: RunSpec, host: HostFacts) -> Place | None:
    """Where they meet: what is asked, else this machine. None where what is asked is no `HOST[:PORT]`."""
    found = _PLACE.fullmatch(spec.devices.rendezvous.strip() or host.hostname)
    port = int(found["port"] or PORT) if found is not None else 0
    return Place(host=found["host"], port=port) if found is not None and 0 < port < 65536 else None


def training(folder: str) -> tuple[str, ...]:
    """What a launcher starts for each rank."""
    return ("--module", "zeroboard.engine", "train", folder)


def argv(python: str, devices: Devices, folder: str, *, run: str, meet: Place | None) -> tuple[str, ...]:
    """torchrun through the running interpreter.

    On one machine the rendezvous is on a port that it chooses itself. `--local-addr`: else the ranks look for each
    other under the machine's own name, which many containers and laptops cannot resolve.
    """
    torchrun = (python, "-m", "torch.distributed.run")
    ranks = ("--nproc-per-node", str(devices.local))
    here = ("--local-addr", "127.0.0.1")
    if devices.nodes == 1 or meet is None:
        return (*torchrun, "--standalone", *here, *ranks, *training(folder))
    agents = ("--nnodes", str(devices.nodes))
    meeting = ("--rdzv-backend", "c10d", "--rdzv-endpoint", str(meet), "--rdzv-id", run)
    return (*torchrun, *agents, *ranks, *meeting, *(here if meet.local else ()), *training(folder))


def environment(devices: Devices, host: HostFacts, run: str, *, meet: Place | None) -> dict[str, str]:
    """What is set for the launcher."""
    env = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible(devices),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(devices.threads),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "ZEROBOARD_RUN": run,
    }
    if devices.device == "cpu":
        env["DS_ACCELERATOR"] = "cpu"
        if devices.nodes == 1 or meet is None or meet.local:
            env["GLOO_SOCKET_IFNAME"] = "lo"  # all ranks are here; gloo would resolve the machine's name otherwise
    if without_p2p(devices.gpus, host.driver):
        env |= P2P_SWITCHES
    return dict(sorted(env.items()))


def visible(devices: Devices) -> str:
    """The GPUs by UUID; by index where several machines train, whose cards have UUIDs of their own."""
    if devices.nodes == 1:
        return ",".join(devices.names) if devices.gpus else ""
    return indices(devices.gpus)


def indices(gpus: Sequence[GpuFacts]) -> str:
    """Their numbers in the PCI bus order, as NVML counts."""
    return ",".join(str(gpu.index) for gpu in gpus)
