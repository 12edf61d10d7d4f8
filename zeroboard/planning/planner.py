"""The one function that makes the plan: Preview shows what it returns, and Start runs it, byte for byte.

`make_plan` is pure but for reading the data file and the tokenizer files (their hash is the tokens' name): the same
spec, machine and files give the same plan, byte for byte.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import Batch, Decision, Dtype, ModelFacts, Plan, Promise, Resolved, TokenFacts, hash_files
from zeroboard.contract.problems import Problem, errors
from zeroboard.contract.reports import DataReport
from zeroboard.contract.spec import RunSpec
from zeroboard.contract.toolchain import Toolchain
from zeroboard.files import to_json
from zeroboard.paths import Paths
from zeroboard.planning.choices import Devices, choose_devices, choose_dtype, small_choices
from zeroboard.planning.command import Place, argv, environment, place
from zeroboard.planning.facts import Facts
from zeroboard.planning.holding import holding, trainable
from zeroboard.planning.machine import Machine
from zeroboard.planning.machine import check as check_machine
from zeroboard.planning.rules import check, disk_needed
from zeroboard.planning.specs import spec_yaml
from zeroboard.planning.steps import schedule_steps, steps, uncounted
from zeroboard.planning.tokens import rows_of, spec_key
from zeroboard.settings import AUTH
from zeroboard.zero.config import Sizes, bucket, config_name, deepspeed_config, uses_nvme

NO_RUN = "<run>"
"""Stands for the run's id where there is none yet."""

SCRUBBED = (
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "ROLE_RANK",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "PET_NPROC_PER_NODE",
    "PET_NNODES",
    "PET_NODE_RANK",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "PET_RDZV_ENDPOINT",
    "PET_RDZV_BACKEND",
    "PET_RDZV_ID",
    "ACCELERATE_USE_DEEPSPEED",
    "ACCELERATE_USE_FSDP",
    "ACCELERATE_USE_CPU",
    "ACCELERATE_MIXED_PRECISION",
    "ACCELERATE_DEEPSPEED_CONFIG_FILE",
    "DS_ACCELERATOR",
    AUTH,
)
"""Inherited variables that would turn a run into another one, and the page's password, which is nobody else's."""


def make_plan(
    spec: RunSpec,
    *,
    host: HostFacts,
    paths: Paths,
    model: ModelFacts | None,
    data: DataReport | None,
    tokens: TokenFacts | None,
    swap: FolderFacts | None = None,
    problems: Iterable[Problem] = (),
    toolchain: Toolchain | None = None,
    output: FolderFacts | None = None,
    run_id: str | None = None,
    python: str = sys.executable,
) -> Plan:
    """Everything that Start would do for a spec on a machine.

    `problems` are those found on the way here (the model's, the data's); what the rules find is added. `tokens` is
    None until the data was tokenised: then the number of steps is not known; `swap` is the folder that states are
    swapped to; `toolchain` and `output` (the nearest
    folder that is there above the run's) are None where nobody has asked. With `run_id` the command names the run's
    folder, else the place that it would take. Where an error stands in the way, the plan has no command.
    """
    devices = choose_devices(spec, host)
    dtype, chosen = choose_dtype(spec, devices)
    batch = Batch(micro=spec.train.micro_batch, accumulation=spec.train.accumulation, gpus=devices.ranks)
    trained = trainable(spec, model)
    promise, count = _promise(spec, model, devices, dtype), _steps(spec, tokens, devices.ranks)
    facts = Facts(
        spec=spec,
        host=host,
        devices=devices,
        dtype=dtype,
        model=model,
        data=data,
        tokens=tokens,
        trainable=trained,
        promise=promise,
        steps=count,
        toolchain=toolchain,
        swap=swap,
    )
    machine = Machine(spec=spec, host=host, devices=devices, promise=promise, toolchain=toolchain, output=output)
    known = tuple(problems)
    found = (*known, *_absent(spec, model, data, known), *check(facts), *check_machine(machine))
    folder = str((paths.run(run_id).folder if run_id is not None else paths.runs / NO_RUN).absolute())
    plan = Plan(
        run_id=run_id,
        folder=folder,
        scrubbed=SCRUBBED,
        files={"spec.yaml": spec_yaml(spec)},
        batch=batch,
        model=model,
        tokens=tokens,
        disk_bytes=disk_needed(facts),
        decisions=(*devices.decisions, *chosen, *small_choices(spec, model, tokens, count, data)),
        problems=found,
    )
    if errors(found) or model is None or data is None:
        return plan.model_copy(update={"files_hash": hash_files(plan.files)})
    work = _Work(
        spec=spec,
        devices=devices,
        dtype=dtype,
        batch=batch,
        model=model,
        data=data,
        trainable=trained,
        host=host,
        meet=place(spec, host) if devices.nodes > 1 else None,
        promise=promise,
    )
    return _complete(plan, work, count, python)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What a plan without errors is made of."""

    spec: RunSpec
    devices: Devices
    dtype: Dtype
    batch: Batch
    model: ModelFacts
    data: DataReport
    trainable: int | None
    host: HostFacts
    meet: Place | None
    promise: Promise | None


def _complete(plan: Plan, work: _Work, count: int | None, python: str) -> Plan:
    """Command, environment, files and promise of a plan that nothing stands in the way of."""
    zero, files, run = work.spec.zero, dict(plan.files), plan.run_id or NO_RUN
    name = config_name(zero.stage, zero.offload)
    decisions = plan.decisions
    mix = work.data.mix.as_weighed(work.spec.data.mix)
    if name is not None:
        if plan.run_id is not None or not uncounted(work.spec, count):  # a preview of what was not tokenised lacks it
            files[name] = to_json(_config(work, count, run))
        decisions = (*decisions, *_bucket_choice(work))
    resolved = Resolved(
        device=work.devices.device,
        backend=work.devices.backend,
        dtype=work.dtype,
        stage=zero.stage,
        offload=zero.offload,
        method=work.spec.method.kind,
        schedule=work.spec.train.schedule,
        batch=work.batch,
        model_path=work.model.path,
        model_name=work.model.name,
        data_path=work.data.path,
        mix=mix,
        data_format=work.data.format,
        tokens_key=spec_key(work.spec, Path(work.data.path), work.model, mix),
        steps=count,
        save_every=work.spec.train.save_every,
        deepspeed_config=name,
        gpus=work.devices.names if work.devices.gpus else (),
        threads=work.devices.threads,
        nodes=work.devices.nodes,
    )
    return plan.model_copy(
        update={
            "argv": argv(python, work.devices, plan.folder or "", run=run, meet=work.meet),
            "env": environment(work.devices, work.host, run, meet=work.meet),
            "files": files,
            "files_hash": hash_files(files),
            "resolved": resolved,
            "promise": work.promise,
            "decisions": decisions,
        }
    )


def _absent(
    spec: RunSpec, model: ModelFacts | None, data: DataReport | None, problems: Iterable[Problem]
) -> list[Problem]:
    """A model or data that is not there and that nobody has named yet."""
    named = {problem.field for problem in problems}
    found = []
    if model is None and "model.path" not in named:
        found.append(Problem(code="model-missing", field="model.path", params={"path": spec.model.path}))
    if data is None and not named & {"data.path", "data.more", "data.eval_path"}:
        found.append(Problem(code="data-missing", field="data.path", params={"path": spec.data.path}))
    return found


def _steps(spec: RunSpec, tokens: TokenFacts | None, ranks: int) -> int | None:
    train = spec.train
    if tokens is None:
        return train.max_steps  # the Trainer takes as many, however much data there is
    return steps(
        rows_of(tokens, spec.data.packing),
        ranks=ranks,
        micro=train.micro_batch,
        accumulation=train.accumulation,
        epochs=train.epochs,
        max_steps=train.max_steps,
    )


def _all(work: _Work) -> int | None:
    """Elements in memory: the model's, and the adapter's beside them."""
    if work.model.parameters is None or work.trainable is None:
        return None
    return work.model.parameters + (work.trainable if work.spec.method.kind == "lora" else 0)


def _config(work: _Work, count: int | None, run_id: str) -> dict[str, object]:
    zero = work.spec.zero
    return dict(
        deepspeed_config(
            zero,
            work.spec.train,
            batch=work.batch,
            dtype=work.dtype,
            sizes=Sizes(
                parameters=_all(work),
                trainable=work.trainable,
                hidden=work.model.hidden,
                largest=max(work.model.tensor_sizes, default=None),
            ),
            schedule=schedule_steps(work.spec, count),
            swap=str(Path(zero.nvme_path).expanduser().absolute() / run_id) if uses_nvme(zero) else None,
            gpu=work.devices.device == "cuda",
        )
    )


def _bucket_choice(work: _Work) -> tuple[Decision, ...]:
    size = bucket(work.trainable, work.spec.zero.bucket_size)
    if size == work.spec.zero.bucket_size:
        return ()
    chosen = work.spec.zero.bucket_size is not None
    says = "decision.bucket.cut" if chosen else "decision.bucket"
    params: dict[str, str | int | float | bool | None] = {"size": size, "trainable": work.trainable}
    return (Decision(field="zero.bucket_size", value=size, says=says, params=params),)


def _promise(spec: RunSpec, model: ModelFacts | None, devices: Devices, dtype: Dtype) -> Promise | None:
    zero = spec.zero
    if model is None:
        return None
    return holding(
        spec,
        model,
        ranks=devices.ranks,
        dtype=dtype,
        stage=zero.stage,
        offload=zero.offload,
    )
