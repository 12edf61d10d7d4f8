"""What a stage promises to hold on each rank, and whether what was measured keeps the promise.

Bytes for one rank of N, outside of computing, for F frozen and T trained elements of b bytes (2 or 4):

    stage  parameters         gradients  optimizer     engine
    none   F·b + T·4          T·4        T·8           torch's DDP: trained weights in fp32, two fp32 Adam moments
    1      (F+T)·b            T·b        12·T/N        DeepSpeed: fp32 copy of the trained weights + two moments
    2      (F+T)·b            T·b/N      12·T/N
    3      (F+T)·b/N + W·b    T·b/N      12·T/N        W: elements of tensors that are too small to be worth sharding
    with offload                + 4·T/N                fp32 gradients in host memory, from which the CPU's Adam reads

Sources: ZeRO (arXiv 1910.02054), section 3 and table 1: K = 12 bytes for Adam with an fp32 copy; DeepSpeed 0.19
`runtime/zero/stage_1_and_2.py` and `stage3.py` (`single_partition_of_fp32_groups`, `fp32_partitioned_groups_flat`: the
copy is made for fp32 weights as well); W is `stage3_param_persistence_threshold`, whose tensors stay gathered beside
their shards between steps. Gradients are those held between two accumulation passes; the fp32 gradients under offload
(`initialize_optimizer_states` of both files) were found by measuring and do not stand in the paper.

Offloaded are the optimizer's bytes, and with `all` the parameters' shards. The gradients lie in the host's memory as
well, but are not counted there: what is measured of them depends on the moment.

Covered: sizes, the stage that the engine itself reports, how many ranks work together, whether offloaded bytes lie in
the host's memory, whether stage 3 gives frozen parameters back after their use.
Not covered: activations, buckets and temporary buffers, which no stage shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from zeroboard.contract.plan import DTYPE_BYTES, Dtype, Promise
from zeroboard.contract.problems import Scalar
from zeroboard.contract.reports import Proof, ProofVerdict, RankProof
from zeroboard.contract.spec import Offload, Place, Stage

TOLERANCE = 0.05
"""Share by which a measured size may differ: DeepSpeed pads each group to 2·N elements and each stage-3 tensor to N."""
SLACK = 4096
"""Bytes beyond that, for step counters and the padding of very small models."""
NVME_LEAST = 0.8
"""Share of the promise that has to be swapped to the disk: DeepSpeed keeps what is smaller than a block in memory."""
SMALL_SHARE = 0.1
"""With less of the parameters trained, sharding gradients and optimizer states saves little, and that is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where offload puts the optimizer's states and the parameters, and the least share of the states that it moves."""

    optimizer: Place = "cpu"
    parameters: Place = "cpu"
    share: float = 1.0
    swapped: int | None = None
    """Elements of parameters that each rank swaps to a disk; small tensors stay in memory. None: all of them."""
    swaps: bool = False
    """A disk was asked for."""


def promise(
    *,
    stage: Stage,
    offload: Offload,
    ranks: int,
    frozen_parameters: int,
    trainable_parameters: int,
    dtype: Dtype,
    whole_parameters: int = 0,
    places: Places | None = None,
) -> Promise:
    """The bytes that each rank holds under a stage.

    `frozen_parameters` and `trainable_parameters` are elements, tied weights counted once; `whole_parameters` are
    elements that stage 3 keeps whole (`whole_elements`). `places`: where offload puts things (None: the host's memory,
    all of it). Raises `ValueError` where a count is negative or no rank.
    """
    if ranks < 1 or min(frozen_parameters, trainable_parameters, whole_parameters) < 0:
        raise ValueError("ranks must be positive, and elements not negative")
    width = DTYPE_BYTES[dtype]
    frozen, trained = frozen_parameters, trainable_parameters
    if stage == "none":
        return Promise(
            parameter_bytes=frozen * width + trained * 4,
            gradient_bytes=trained * 4,
            optimizer_bytes=trained * 8,
            offloaded_bytes=0,
        )
    share = _share(trained, ranks)
    parameters = frozen + trained if stage != "3" else _share(frozen + trained, ranks) + whole_parameters
    gradients = (trained if stage == "1" else share) * width
    optimizer = share * 12
    where = places or Places()
    moved = {"cpu": 0, "nvme": 0}
    if offload != "none":
        gradients += share * 4
        moved[where.optimizer] += int(optimizer * where.share)
    if offload == "all":
        held = _share(frozen + trained, ranks)
        swapped = min(held if where.swapped is None else where.swapped, held) if where.parameters == "nvme" else 0
        moved["nvme"] += swapped * width
        moved["cpu"] += (held - swapped) * width
    return Promise(
        parameter_bytes=parameters * width,
        gradient_bytes=gradients,
        optimizer_bytes=optimizer,
        offloaded_bytes=moved["cpu"],
        nvme_bytes=moved["nvme"],
        swaps=where.swaps,
    )


def _share(elements: int, ranks: int) -> int:
    return -(-elements // ranks)


def targeted(linear_shapes: Mapping[str, tuple[int, int]], targets: str) -> dict[str, tuple[int, int]]:
    """The linear layers that LoRA aims at: all of them, or those whose name ends with one of the names."""
    if targets.strip() == "all-linear":
        return dict(linear_shapes)
    wanted = {name.strip() for name in targets.split(",") if name.strip()}
    return {
        name: shape
        for name, shape in linear_shapes.items()
        if any(("." + name.removesuffix(".weight")).endswith("." + target) for target in wanted)
    }


def lora_matrices(linear_shapes: Mapping[str, tuple[int, int]], rank: int, targets: str) -> tuple[int, ...]:
    """Elements of each matrix of the adapter: A (rank × in) and B (out × rank) of every layer aimed at."""
    shapes = targeted(linear_shapes, targets).values()
    return tuple(elements for out, into in shapes for elements in (rank * into, rank * out))


def lora_parameters(linear_shapes: Mapping[str, tuple[int, int]], rank: int, targets: str) -> int:
    """Elements that LoRA trains: r · (in + out) for every layer aimed at (LoRA, arXiv 2106.09685, section 4.1)."""
    return sum(lora_matrices(linear_shapes, rank, targets))


def whole_elements(tensors: Iterable[tuple[int, int]], threshold: int) -> int:
    """Elements that stage 3 leaves whole: of `(elements, how many tensors)`, those of at most `threshold` elements."""
    return sum(elements * count for elements, count in tensors if elements <= threshold)


def judge_proof(
    ranks: tuple[RankProof, ...],
    expected: Promise | None,
    *,
    stage: Stage,
    offload: Offload,
    trainable_share: float | None,
    planned_ranks: int | None = None,
) -> Proof:
    """Whether the ranks hold what the stage promises.

    `not in effect`: another stage or engine reports itself, fewer ranks than planned work together, a rank holds whole
    what should be 1/N, or nothing was offloaded. `partly`: the sizes miss the promise by more than `TOLERANCE` and
    `SLACK`, frozen parameters are kept after their use, nothing can be compared, or one rank alone cannot share.
    `trainable_share` is trained ÷ all elements, for the sentence.
    """
    if ranks and planned_ranks is not None and len(ranks) != planned_ranks:
        params: dict[str, Scalar] = {"found": len(ranks), "planned": planned_ranks}
        return Proof(ranks=ranks, expected=expected, verdict="not in effect", says="proof.other-ranks", params=params)
    verdict, says, params = _judge(ranks, expected, stage, offload, trainable_share)
    return Proof(ranks=ranks, expected=expected, verdict=verdict, says=says, params=params)


_Judgement = tuple[ProofVerdict, str, dict[str, Scalar]]


def _judge(
    ranks: tuple[RankProof, ...], expected: Promise | None, stage: Stage, offload: Offload, share: float | None
) -> _Judgement:
    if not ranks:
        return "not in effect", "proof.no-ranks", {}
    wanted = 0 if stage == "none" else int(stage)
    for rank in ranks:
        if rank.stage != wanted or (rank.engine == "deepspeed") != (wanted > 0):
            params: dict[str, Scalar] = {"rank": rank.rank, "asked": stage, "found": rank.stage, "engine": rank.engine}
            return "not in effect", "proof.other-stage", params
    if expected is None and offload != "none":
        for rank in ranks:
            if rank.offloaded_bytes + rank.nvme_bytes == 0:
                return "not in effect", "proof.nothing-offloaded", {"rank": rank.rank, "stage": stage}
    if expected is None:
        return "partly", "proof.nothing-to-compare", {"stage": stage, "ranks": len(ranks)}
    faults = [fault for rank in ranks for fault in _faults(rank, expected, stage, len(ranks))]
    for verdict in ("not in effect", "partly"):
        for fault in faults:
            if fault[0] == verdict:
                return fault
    return _good(ranks, expected, stage, offload, share)


def _good(
    ranks: tuple[RankProof, ...], expected: Promise, stage: Stage, offload: Offload, share: float | None
) -> _Judgement:
    """The sizes keep the promise: say what that means here."""
    params: dict[str, Scalar] = {
        "stage": stage,
        "ranks": len(ranks),
        "percent": round(100 / len(ranks), 1),
        "optimizer_bytes": ranks[0].optimizer_bytes,
        "parameter_bytes": ranks[0].parameter_bytes,
        "offloaded_bytes": expected.offloaded_bytes + expected.nvme_bytes,
    }
    if stage == "none":
        return "in effect", "proof.whole", params
    if len(ranks) == 1 and offload == "none":
        return "partly", "proof.one-rank", params
    if stage in ("1", "2") and offload == "none" and share is not None and share < SMALL_SHARE:
        return "in effect", "proof.in-effect.small-share", {**params, "trained_percent": round(share * 100, 2)}
    return "in effect", "proof.in-effect.offload" if offload != "none" else f"proof.in-effect.{stage}", params


def _faults(rank: RankProof, expected: Promise, stage: Stage, ranks: int) -> list[_Judgement]:
    found: list[_Judgement] = []
    sharded = stage != "none"
    found += _size(rank, "optimizer", rank.optimizer_bytes, expected.optimizer_bytes, ranks if sharded else 1)
    if rank.frozen_released is False:  # that says why they are too many
        kept: dict[str, Scalar] = {
            "rank": rank.rank,
            "measured": rank.parameter_bytes,
            "promised": expected.parameter_bytes,
        }
        found.append(("partly", "proof.frozen-kept", kept))
    else:
        whole = ranks if stage == "3" else 1
        found += _size(rank, "parameters", rank.parameter_bytes, expected.parameter_bytes, whole)
    if rank.gradient_bytes is not None and rank.gradient_bytes > _most(expected.gradient_bytes):
        whole = ranks if stage in ("2", "3") else 1
        found += _size(rank, "gradients", rank.gradient_bytes, expected.gradient_bytes, whole)
    if expected.swaps and not rank.nvme_bytes and not expected.nvme_bytes:
        found.append(("not in effect", "proof.nothing-swapped", {"rank": rank.rank}))
    if rank.nvme_bytes < _least(expected.nvme_bytes) * NVME_LEAST:
        swapped: dict[str, Scalar] = {
            "rank": rank.rank,
            "measured": rank.nvme_bytes,
            "promised": expected.nvme_bytes,
        }
        found.append(("not in effect" if rank.nvme_bytes == 0 else "partly", "proof.not-swapped", swapped))
    if rank.offloaded_bytes < _least(expected.offloaded_bytes):
        params: dict[str, Scalar] = {
            "rank": rank.rank,
            "measured": rank.offloaded_bytes,
            "promised": expected.offloaded_bytes,
        }
        says = "proof.not-offloaded"
        nothing = rank.offloaded_bytes <= TOLERANCE * expected.offloaded_bytes
        found.append(("not in effect" if nothing else "partly", says, params))
    return found


def _size(
    rank: RankProof, what: Literal["optimizer", "parameters", "gradients"], measured: int, promised: int, ranks: int
) -> list[_Judgement]:
    """Compare one size; `ranks` is how many share it (1: it is held whole)."""
    params: dict[str, Scalar] = {"rank": rank.rank, "measured": measured, "promised": promised, "ranks": ranks}
    if _least(promised) <= measured <= _most(promised):
        return []
    if ranks > 1 and measured >= promised * ranks * (1 - TOLERANCE):
        return [("not in effect", f"proof.held-whole.{what}", params)]
    return [("partly", f"proof.other-size.{what}", params)]


def _most(promised: int) -> float:
    return promised * (1 + TOLERANCE) + SLACK


def _least(promised: int) -> float:
    return promised * (1 - TOLERANCE) - SLACK
