"""CUDA_VISIBLE_DEVICES, read as CUDA reads it, and told in NVML's terms: UUIDs.

A process that was started with it sees only those devices, and so does what it starts; a plan says it anew with UUIDs.
As CUDA does: devices come in the order of the list; the list ends at the first entry that is nothing here (`-1`,
`NoDevFiles`, an index too high, a prefix of no UUID or of several); an entry that comes twice makes all of it void.
Not covered: an index is one of the PCI bus order, while CUDA counts the fastest first unless CUDA_DEVICE_ORDER says
PCI_BUS_ID; that differs only among cards of several kinds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from zeroboard.contract.host import GpuFacts, HostFacts

VARIABLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"

_INDEX = re.compile(r"\+?(\d+)")
_UUIDS = ("GPU-", "MIG-")
_OLD_SLICE = re.compile(r"MIG-(GPU-[0-9a-fA-F-]+)/(\d+)/(\d+)")
"""What drivers before 470 called a slice: its GPU, GPU instance and compute instance."""


def visible(gpus: Sequence[GpuFacts], environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """UUIDs of the GPUs, and slices of GPUs, that CUDA would show, in its order; None where the variable is not set."""
    said = environment.get(VARIABLE)
    if said is None:
        return None
    found: list[str] = []
    entries = said.split(",")
    kind = _kind(entries[0].strip())
    for entry in entries:
        text = entry.strip()
        uuid = _one(text, gpus) if _kind(text) == kind else None
        if uuid is None:
            break
        if uuid in found:
            return ()
        found.append(uuid)
    return tuple(found)


def visible_gpus(host: HostFacts) -> tuple[GpuFacts, ...]:
    """The devices that a run may be given: GPUs that can be named and answer, in NVML's order.

    Of a GPU in MIG mode that are its slices, each as a GPU of its own UUID, name and memory. Where `host.visible` says
    what this process may see, it is that, in its order.
    """
    found = {device.uuid: device for gpu in host.gpus if gpu.state != "lost" for device in _devices(gpu)}
    return tuple(found.values() if host.visible is None else (found[u] for u in host.visible if u in found))


def hidden(host: HostFacts) -> int:
    """How many devices there are that this process may not see."""
    return len(visible_gpus(host.model_copy(update={"visible": None}))) - len(visible_gpus(host))


def is_slice(device: GpuFacts) -> bool:
    """Whether a device is a slice of a GPU: CUDA gives a process one of these at most."""
    return (device.uuid or "").startswith("MIG-")


def _devices(gpu: GpuFacts) -> list[GpuFacts]:
    if not gpu.slices:
        return [gpu] if gpu.uuid else []
    names = ("uuid", "name", "memory_total", "memory_used")
    parts = [part for part in gpu.slices if part.uuid]
    return [gpu.model_copy(update={"slices": None, **{n: getattr(part, n) for n in names}}) for part in parts]


def guessed(gpus: Sequence[GpuFacts], environment: Mapping[str, str]) -> bool:
    """Whether indices were given for cards of several kinds without saying that they count in PCI bus order."""
    by_index = _INDEX.match(environment.get(VARIABLE, "").strip()) is not None
    kinds = {gpu.name for gpu in gpus}
    return by_index and len(kinds) > 1 and environment.get(ORDER) != "PCI_BUS_ID"


def _kind(text: str) -> str:
    """CUDA takes the kind of the whole list from its first entry."""
    return next((prefix for prefix in _UUIDS if text.startswith(prefix)), "index")


def _one(text: str, gpus: Sequence[GpuFacts]) -> str | None:
    kind = _kind(text)
    if kind == "index":
        number = _INDEX.match(text)  # CUDA reads the digits that an entry begins with: `1gpu` is 1
        found = [gpu.uuid for gpu in gpus if number is not None and gpu.index == int(number.group(1))]
    elif kind == "GPU-":
        found = [gpu.uuid for gpu in gpus if gpu.uuid is not None and _begins(gpu.uuid, text)]
    else:
        found = [part.uuid for gpu in gpus for part in gpu.slices or () if part.uuid and _begins(part.uuid, text)]
        old = _OLD_SLICE.fullmatch(text)
        if not found and old is not None:
            return _old_slice(old.group(1), gpus)
    return found[0] if len(found) == 1 else None


def _begins(uuid: str, text: str) -> bool:
    return uuid.lower().startswith(text.lower())


def _old_slice(parent: str, gpus: Sequence[GpuFacts]) -> str | None:
    """NVML does not tell us the instances' numbers here, so an old name is known only where its GPU has one slice."""
    for gpu in gpus:
        if gpu.uuid == parent and gpu.slices is not None and len(gpu.slices) == 1:
            return gpu.slices[0].uuid
    return None
