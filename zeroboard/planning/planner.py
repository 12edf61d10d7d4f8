"""The one function that makes the plan: Preview shows what it returns, and Start runs it, byte for byte.

`make_plan` is pure but for reading the data file and the tokenizer files (their hash is the tokens' name): the same
spec, machine and files give the same plan, byte for byte.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import Batch, Decision, Dtype, ModelFacts, Plan, Promise, Resolved, TokenFacts, hash_files
from zeroboard.contract.problems import Problem, errors
from zeroboard.contract.reports import DataReport
from zeroboard.contract.spec import RunSpec
from zeroboard.files import to_json
from zeroboard.paths import Paths
from zeroboard.planning.choices import Devices, choose_devices, choose_dtype, small_choices
from zeroboard.planning.holding import holding, trainable
from zeroboard.planning.rules import Facts, check, disk_needed
from zeroboard.planning.specs import spec_yaml
from zeroboard.planning.steps import steps
from zeroboard.planning.tokens import tokens_key
from zeroboard.settings import AUTH
from zeroboard.zero.config import Sizes, bucket, config_name, deepspeed_config

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
    problems: Iterable[Problem] = (),
    run_id: str | None = None,
    python: str = sys.executable,
) -> Plan:
    """Everything that Start would do for a spec on a machine.

    `problems` are those found on the way here (the model's, the data's); what the rules find is added. `tokens` is
    None until the data was tokenised: then the number of steps is not known. With `run_id` the command names the run's
    folder, else the place that it would take. Where an error stands in the way, the plan has no command.
    """
    devices = choose_devices(spec, host)
    dtype, chosen = choose_dtype(spec, devices)
    batch = Batch(micro=spec.train.micro_batch, accumulation=spec.train.accumulation, gpus=devices.ranks)
    trained = trainable(spec, model)
    facts = Facts(
        spec=spec,
        host=host,
        devices=devices,
        dtype=dtype,
        model=model,
        data=data,
        tokens=tokens,
        trainable=trained,
    )
    known = tuple(problems)
    found = (*known, *_absent(spec, model, data, known), *check(facts))
    count = _steps(spec, tokens, devices.ranks)
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
        decisions=(*devices.decisions, *chosen, *small_choices(spec, model, tokens, count)),
        problems=found,
    )
    if errors(found) or model is None or data is None:
        return plan.model_copy(update={"files_hash": hash_files(plan.files)})
    work = _Work(spec=spec, devices=devices, dtype=dtype, batch=batch, model=model, data=data, trainable=trained)
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


def _complete(plan: Plan, work: _Work, count: int | None, python: str) -> Plan:
    """Command, environment, files and promise of a plan that nothing stands in the way of."""
    zero, files = work.spec.zero, dict(plan.files)
    name = config_name(zero.stage, zero.offload)
    decisions = plan.decisions
    if name is not None:
        files[name] = to_json(_config(work))
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
        data_format=work.data.format,
        tokens_key=tokens_key(
            Path(work.data.path),
            work.model,
            work.spec.data.max_length,
            evaluation=work.spec.data.evaluation,
            seed=work.spec.train.seed,
        ),
        steps=count,
        save_every=work.spec.train.save_every,
        deepspeed_config=name,
        gpus=work.devices.names if work.devices.gpus else (),
        threads=work.devices.threads,
    )
    return plan.model_copy(
        update={
            "argv": _argv(python, work.devices.ranks, plan.folder or ""),
            "env": _env(work.devices, plan.run_id or NO_RUN),
            "files": files,
            "files_hash": hash_files(files),
            "resolved": resolved,
            "promise": _promise(work),
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
    if data is None and "data.path" not in named:
        found.append(Problem(code="data-missing", field="data.path", params={"path": spec.data.path}))
    return found


def _steps(spec: RunSpec, tokens: TokenFacts | None, ranks: int) -> int | None:
    train = spec.train
    if tokens is None:
        return None
    return steps(
        tokens.rows,
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


def _config(work: _Work) -> dict[str, object]:
    zero = work.spec.zero
    return dict(
        deepspeed_config(
            stage=zero.stage,
            offload=zero.offload,
            batch=work.batch,
            dtype=work.dtype,
            max_grad_norm=work.spec.train.max_grad_norm,
            sizes=Sizes(parameters=_all(work), trainable=work.trainable, hidden=work.model.hidden),
            bucket_size=zero.bucket_size,
            overlap_comm=zero.overlap_comm,
            gather_on_save=zero.gather_on_save,
            pin_memory=work.devices.device == "cuda",
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


def _promise(work: _Work) -> Promise | None:
    zero = work.spec.zero
    return holding(
        work.spec,
        work.model,
        ranks=work.devices.ranks,
        dtype=work.dtype,
        stage=zero.stage,
        offload=zero.offload,
    )


def _argv(python: str, ranks: int, folder: str) -> tuple[str, ...]:
    """torchrun through the running interpreter, with a rendezvous on a port that it chooses itself.

    `--local-addr`: else the ranks look for each other under the machine's own name, which many containers and laptops
    cannot resolve.
    """
    launcher = (python, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1")
    return (*launcher, "--nproc-per-node", str(ranks), "--module", "zeroboard.engine", "train", folder)


def _env(devices: Devices, run: str) -> dict[str, str]:
    env = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(devices.names) if devices.gpus else "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(devices.threads),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "ZEROBOARD_RUN": run,
    }
    if devices.device == "cpu":
        env["DS_ACCELERATOR"] = "cpu"
        env["GLOO_SOCKET_IFNAME"] = "lo"  # all ranks are here; gloo would resolve the machine's name otherwise
    return dict(sorted(env.items()))
