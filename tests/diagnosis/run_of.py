"""The parts of a run, as values, for tests of what is noticed while it goes on."""

from __future__ import annotations

from zeroboard.contract.beats import Beat, Where
from zeroboard.contract.events import StepEvent
from zeroboard.contract.plan import Batch, Resolved
from zeroboard.contract.readings import GpuReading, ProcessReading, Reading
from zeroboard.contract.spec import RunSpec
from zeroboard.planning.specs import with_sets

GPUS = ("GPU-a", "GPU-b")
GIB = 1 << 30


def spec(*sets: str) -> RunSpec:
    return RunSpec.model_validate(with_sets({"model": {"path": "m"}, "data": {"path": "d"}}, sets))


def resolved(*, dtype: str = "bf16", stage: str = "none") -> Resolved:
    return Resolved.model_validate(
        {
            "device": "cuda", "backend": "nccl", "dtype": dtype, "stage": stage, "offload": "none", "method": "lora",
            "schedule": "linear", "batch": Batch(micro=1, accumulation=1, gpus=2), "model_path": "/m",
            "model_name": "m", "data_path": "/d", "data_format": "messages", "tokens_key": "k", "steps": 100,
            "save_every": None, "deepspeed_config": None, "threads": 1, "gpus": GPUS,
        }
    )  # fmt: skip


def step(number: int, *, loss: float | None = 2.0, grad_norm: float | None = 1.0, seconds: float = 1.0) -> StepEvent:
    return StepEvent(
        seq=number, time=float(number), rank=0, step=number, epoch=0.1, loss=loss, grad_norm=grad_norm,
        learning_rate=1e-4, step_time=seconds,
    )  # fmt: skip


def beat(rank: int, moves: int, *, where: Where = "backward", at: float = 0.0, step: int = 3) -> Beat:
    return Beat(rank=rank, host="here", pid=100 + rank, step=step, where=where, moves=moves, moved=at, time=at)


def gpu(number: int = 0, **values: object) -> GpuReading:
    """One that is well: half full, at work, cool."""
    well: dict[str, object] = {
        "uuid": GPUS[number], "index": 4 + number, "memory_used": 40 * GIB, "memory_total": 80 * GIB,
        "utilization": 97.0, "temperature": 60.0, "power": 400.0, "throttle": (),
        "processes": (ProcessReading(pid=100 + number, memory=39 * GIB, ours=True),),
    }  # fmt: skip
    return GpuReading.model_validate({**well, **values})


def reading(time: float, *gpus: GpuReading, **values: object) -> Reading:
    return Reading.model_validate({"time": time, "gpus": gpus, **values})
