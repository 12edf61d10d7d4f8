"""What is chosen where the spec leaves it open, each with its reason: devices, ranks, precision, threads, warm-up …"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import JsonValue

from zeroboard.contract.host import GpuFacts, HostFacts
from zeroboard.contract.plan import Backend, Decision, Device, Dtype, ModelFacts, TokenFacts
from zeroboard.contract.problems import Scalar
from zeroboard.contract.reports import DataReport
from zeroboard.contract.spec import RunSpec
from zeroboard.planning.steps import warmup_steps
from zeroboard.planning.visible import hidden, is_slice, visible_gpus

CPU_RANKS = 2
"""Ranks on the CPU: as few as show sharding, as many as a small machine bears."""
BF16_CAPABILITY = (8, 0)
"""Compute capability from which a GPU computes in bfloat16 (Ampere)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Where a run goes. Never impossible: what was asked and is not there is named by the rules."""

    device: Device
    backend: Backend
    ranks: int
    """On all machines together."""
    gpus: tuple[GpuFacts, ...]
    """Of this machine, in rank order; empty on the CPU."""
    threads: int
    """CPU threads a rank."""
    decisions: tuple[Decision, ...]
    nodes: int = 1
    """Machines that train together."""

    @property
    def local(self) -> int:
        """Ranks on each machine."""
        return self.ranks // self.nodes

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the locks that the run takes: UUIDs, or `cpu`."""
        return tuple(gpu.uuid for gpu in self.gpus if gpu.uuid) or ("cpu",)


def usable_gpus(host: HostFacts) -> tuple[GpuFacts, ...]:
    """The devices that a run may use together: whole GPUs, or one slice of a GPU where there is none."""
    devices = visible_gpus(host)
    return tuple(gpu for gpu in devices if not is_slice(gpu)) or devices[:1]


def choose_devices(spec: RunSpec, host: HostFacts) -> Devices:
    """The GPUs that are asked, or every free one; without any, processes on the CPU."""
    gpus = visible_gpus(host)
    here, nodes = _on_gpus(spec, host, gpus) if gpus else _on_cpu(spec, host), spec.devices.nodes
    if nodes == 1:
        return here
    params: dict[str, Scalar] = {"nodes": nodes, "local": here.ranks, "ranks": here.ranks * nodes}
    told = _decide("devices.nodes", nodes, "decision.nodes", **params)
    return replace(here, ranks=here.ranks * nodes, nodes=nodes, decisions=(*here.decisions, told))


def _on_cpu(spec: RunSpec, host: HostFacts) -> Devices:
    asked = spec.devices.count
    most = max(host.cpu_count, 1)
    ranks = min(asked or CPU_RANKS, most)
    threads = max(most // ranks, 1)
    says = "decision.device.hidden" if hidden(host) else "decision.device.cpu"
    decisions = [_decide("devices", "cpu", says, cores=host.cpu_count)]
    if asked is None:
        decisions.append(_decide("devices.count", ranks, "decision.ranks.cpu", ranks=ranks))
    decisions.append(_decide("threads", threads, "decision.threads", threads=threads, cores=most, ranks=ranks))
    return Devices(device="cpu", backend="gloo", ranks=ranks, gpus=(), threads=threads, decisions=tuple(decisions))


def _on_gpus(spec: RunSpec, host: HostFacts, gpus: tuple[GpuFacts, ...]) -> Devices:
    asked = spec.devices.count
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    decisions = _visibility(host, len(gpus))
    if spec.devices.gpus:
        pool = tuple(by_uuid[uuid] for uuid in dict.fromkeys(spec.devices.gpus) if uuid in by_uuid)
        chosen = pool[:asked] or pool or gpus[:1]
        if asked is not None and asked < len(pool):
            decisions.append(
                _decide("devices.gpus", _uuids(chosen), "decision.gpus.first", ranks=asked, given=len(pool))
            )
    else:
        usable = tuple(gpu for gpu in gpus if not is_slice(gpu)) or gpus
        free = tuple(gpu for gpu in usable if gpu.uuid not in host.held)
        # where not enough are free the busy ones are planned with, and a problem says who holds them
        enough = free if free and len(free) >= (asked or 1) else usable
        chosen = enough[:asked]
        says = "decision.gpus.all" if asked is None else "decision.gpus.count"
        params: dict[str, Scalar] = {"ranks": len(chosen), "found": len(gpus), "free": len(free)}
        decisions.append(_decide("devices.gpus", _uuids(chosen), says, **params))
    if len(chosen) > 1 and any(is_slice(gpu) for gpu in chosen):
        chosen = chosen[:1]
        decisions.append(_decide("devices.gpus", _uuids(chosen), "decision.gpus.slice"))
    ranks = len(chosen)
    threads = max(host.cpu_count // ranks, 1)
    decisions.append(
        _decide("threads", threads, "decision.threads", threads=threads, cores=host.cpu_count, ranks=ranks)
    )
    return Devices(device="cuda", backend="nccl", ranks=ranks, gpus=chosen, threads=threads, decisions=tuple(decisions))


def _visibility(host: HostFacts, seen: int) -> list[Decision]:
    """Said where this process may not see every GPU that is there."""
    away = hidden(host)
    found = [_decide("devices.gpus", seen, "decision.gpus.visible", seen=seen, found=seen + away)] if away else []
    if host.visible_guessed:
        found.append(_decide("devices.gpus", seen, "decision.gpus.order"))
    return found


def choose_dtype(spec: RunSpec, devices: Devices) -> tuple[Dtype, tuple[Decision, ...]]:
    """The type of the computation: what is asked, else the fastest that the device computes in."""
    asked = spec.train.precision
    if asked != "auto":
        return asked, ()
    if devices.device == "cpu":
        return "fp32", (_decide("train.precision", "fp32", "decision.precision.cpu"),)
    lowest = lowest_capability(devices)
    if lowest is None:
        return "fp16", (_decide("train.precision", "fp16", "decision.precision.unknown"),)
    dtype: Dtype = "bf16" if lowest >= BF16_CAPABILITY else "fp16"
    shown = f"{lowest[0]}.{lowest[1]}"
    return dtype, (_decide("train.precision", dtype, f"decision.precision.{dtype}", capability=shown),)


def lowest_capability(devices: Devices) -> tuple[int, int] | None:
    """The lowest compute capability among the GPUs; None where one of them does not tell."""
    found = [_capability(gpu.compute_capability) for gpu in devices.gpus]
    known = [capability for capability in found if capability is not None]
    return min(known) if known and len(known) == len(found) else None


def _capability(text: str | None) -> tuple[int, int] | None:
    parts = (text or "").split(".")
    if len(parts) == 2 and all(part.isdecimal() for part in parts):
        return int(parts[0]), int(parts[1])
    return None


def small_choices(
    spec: RunSpec,
    model: ModelFacts | None,
    tokens: TokenFacts | None,
    steps: int | None,
    data: DataReport | None = None,
) -> tuple[Decision, ...]:
    """The commits of model and data, template, warm-up, evaluation and saving."""
    found: list[Decision] = []
    if model is not None and model.commit is not None:
        found.append(_decide("model.path", model.commit, "decision.hub", asked=spec.model.path, folder=model.path))
    if data is not None and data.commit is not None:
        found.append(_decide("data.path", data.commit, "decision.hub", asked=spec.data.path, folder=data.path))
    if data is not None and data.commits:
        fields = [*("data.more" for _ in spec.data.more), "data.eval_path"]
        found += [
            _decide(field, data.commits[asked], "decision.hub", asked=asked, folder=folder)
            for field, asked, folder in zip(fields, spec.data.mix.paths, data.mix.paths, strict=False)
            if asked in data.commits
        ]
    if tokens is not None or (model is not None and model.has_template is not None):
        own = tokens.template == "model" if tokens is not None else bool(model and model.has_template)
        found.append(
            _decide("template", "model" if own else "chatml", f"decision.template.{'model' if own else 'chatml'}")
        )
    if steps is not None and spec.train.warmup_ratio and spec.train.warmup_steps is None:
        warm = warmup_steps(spec.train.warmup_ratio, steps)
        found.append(_decide("train.warmup_ratio", warm, "decision.warmup", warm=warm, steps=steps))
    if steps is None:
        found.append(_decide("steps", None, "decision.steps.unknown"))
    if tokens is not None and tokens.parts:
        found += _mixed(spec, tokens)
    if spec.data.share or spec.data.mix.held_out is not None:
        found += _evaluation(spec, tokens)
    if spec.train.save_every is None:
        found.append(_decide("train.save_every", None, "decision.save.end"))
    return tuple(found)


def _mixed(spec: RunSpec, tokens: TokenFacts) -> list[Decision]:
    """What each file gives to an epoch."""
    files = [("data.weight", spec.data.path), *(("data.more", one.path) for one in spec.data.more)]
    return [
        _decide(field, part.seen, "decision.mix", path=path, seen=part.seen, rows=part.rows, weight=f"{weight:g}")
        for (field, path), part, weight in zip(files, tokens.parts, spec.data.mix.weights, strict=True)
    ]


def _evaluation(spec: RunSpec, tokens: TokenFacts | None) -> list[Decision]:
    found: list[Decision] = []
    if tokens is not None and tokens.held is not None:
        held, path = tokens.evaluation, spec.data.eval_path
        found.append(_decide("data.eval_path", held, "decision.evaluation.file", held=held, path=path))
    elif tokens is not None:
        total = tokens.rows + tokens.evaluation
        found.append(
            _decide("data.evaluation", tokens.evaluation, "decision.evaluation", held=tokens.evaluation, total=total)
        )
    if spec.train.evaluate_every is None:
        found.append(_decide("train.evaluate_every", None, "decision.evaluation.epoch"))
    return found


def _uuids(gpus: tuple[GpuFacts, ...]) -> JsonValue:
    return [gpu.uuid for gpu in gpus]


def _decide(field: str, value: JsonValue, says: str, **params: Scalar) -> Decision:
    return Decision(field=field, value=value, says=says, params=params)
