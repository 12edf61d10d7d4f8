"""Logs for tests, and what is found in them."""

from __future__ import annotations

from pathlib import Path

from zeroboard.contract.findings import Diagnosis
from zeroboard.diagnosis.diagnose import diagnose
from zeroboard.diagnosis.facts import RunFacts
from zeroboard.diagnosis.reading import Line

NOW = 1_800_000_000.0


def found(
    place: Path, text: str | bytes | dict[str, str], *, facts: RunFacts | None = None, now: float = NOW
) -> Diagnosis:
    """What is found in a log (its text), or in a folder of logs (name → text)."""
    if isinstance(text, dict):
        for name, content in text.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(content)
        target = place
    else:
        target = place / "train.log"
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
    made = diagnose(target, now=now, facts=facts)
    assert made is not None
    return made


def raised(what: str, *frames: str, rank: int | None = None) -> str:
    """A traceback that ends in `what`; frames are `file:function`."""
    lines = ["Traceback (most recent call last):"]
    for frame in frames or ("/w/train.py:main",):
        file, _, name = frame.rpartition(":")
        lines += [f'  File "{file}", line 3, in {name}', "    call(x)"]
    lines += what.split("\n")
    mark = "" if rank is None else f"[rank{rank}]: "
    return "".join(f"{mark}{line}\n" for line in lines)


def step(loss: float | str = 1.5, norm: float | str = 0.9, **more: object) -> str:
    """A step as the Trainer logs it."""
    return str({"loss": str(loss), "grad_norm": str(norm), "learning_rate": "1e-05", "epoch": "0.1", **more}) + "\n"


STARTED = "***** Running training *****\n"
ENDED = "{'train_runtime': '12.1', 'train_loss': '1.2', 'epoch': '1'}\n"

FIRST_FAILED = """E0724 13:12:19.679000 27879 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: {code}) local_rank: {rank} (pid: 27950) of binary: python
Traceback (most recent call last):
  File "/env/torch/distributed/run.py", line 892, in main
    run(args)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-07-24_13:12:19
  host      : lab
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 27950)
============================================================
"""  # noqa: E501 - as torchrun writes it


def report(rank: int, code: int) -> str:
    """torchrun's report."""
    return FIRST_FAILED.format(rank=rank, code=code)


def line(text: str, rank: int | None = None, number: int = 1) -> Line:
    return Line("x.log", number, rank, text, False)
