"""Every code that `config` and `plan` can answer with is provoked once, code by code, from the list in docs/cli.md."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.planning import facts as make
from zeroboard.contract.exports import ExportWish
from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import DataProblem
from zeroboard.contract.schema import Schema
from zeroboard.contract.toolchain import Toolchain
from zeroboard.diagnosis.matching import of_exception
from zeroboard.errors import Refused
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.paths import HOME, Paths
from zeroboard.planning.models import read_model
from zeroboard.planning.planner import make_plan
from zeroboard.planning.specs import parse_spec
from zeroboard.services import exports, fetching
from zeroboard.services.judging import Judgement
from zeroboard.services.preflight import port_problems
from zeroboard.zero.check import check_file
from zeroboard.zero.reading import read

WAITING = {"does-not-fit": "the forecast"}
"""Code → what has to be built before it can be told."""
ELSEWHERE = ("hub-gated", "hub-unreachable", "hub-busy", "hub-failed")
"""Codes of fetching, which is provoked against the stand-in of the hub: `test_fetching`, `test_download`."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a case may use."""

    folder: Path
    schema: Schema

    def config(self, **top: Any) -> Iterable[Problem]:
        """A brought file of stage 2, judged; `zero` is its block."""
        zero = {"stage": 2, **top.pop("zero", {})}
        whole = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "zero_optimization": zero}
        return check_file({**whole, **top}, self.schema)

    def plan(
        self, *sets: str, model: Mapping[str, Any] | None = None, data: Mapping[str, Any] | None = None,
        absent: bool = False, **given: Any,
    ) -> Iterable[Problem]:  # fmt: skip
        """The problems of a plan of the tiny model; `absent`: its data is not there."""
        found = {
            "host": make.host(), "paths": Paths(self.folder / "cache"), "tokens": None,
            "model": make.model(self.folder / "m", **(model or {})),
            "data": None if absent else make.data(self.folder / "d.jsonl", **(data or {})),
        }  # fmt: skip
        return make_plan(make.spec(*sets), **{**found, **given}).problems

    def model(self, **files: str) -> Iterable[Problem]:
        """A model's folder with these files (`_` for a point), read."""
        place = self.folder / "given"
        place.mkdir()
        config = {**make.TINY, **json.loads(files.pop("config", "{}"))}
        (place / "config.json").write_text(json.dumps(config))
        for name, text in files.items():
            (place / name.replace("__", ".")).write_text(text)
        return read_model(str(place), Paths(self.folder))[1]

    def busy(self) -> Iterable[Problem]:
        """The place where several machines would meet is taken."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            spec = make.spec("devices.nodes=2", f"devices.rendezvous=127.0.0.1:{taken.getsockname()[1]}")
            return port_problems(spec, make.host())

    def output(self) -> Iterable[Problem]:
        """An export into a folder that holds something."""
        (self.folder / "full").mkdir()
        (self.folder / "full" / "mine.txt").write_text("mine")
        wish = ExportWish(word="m", path=str(self.folder / "m"), target=str(self.folder / "full"), kind="full-model")
        return exports.judge(Paths(self.folder), wish)


def refused(act: Callable[[], Any]) -> Iterable[Problem]:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value.problems


def finding(text: str) -> Iterable[Problem]:
    """What a log's last words are taken for, as a problem."""
    code = of_exception(text)[0].code
    return [Problem(code=code, says=f"finding.{code}", params={"text": text})]


SPEC = {"model": {"path": "m"}, "data": {"path": "d"}}
CARD = {"name": "NVIDIA GeForce RTX 4090", "memory_total": 24 << 30}
TOOLS = Toolchain(torch="2.13.0+cpu", compiles=True)
HEAD = "{{ messages }}"
BAD_ROW = DataProblem(code="missing-output", severity="error", count=12, rows=(1,), params={"count": 12, "rows": "1"})

CASES: Mapping[str, Callable[[Room], Iterable[Problem]]] = {
    "not-json": lambda room: read(b"{stage: 2}").problems,
    "duplicate-key": lambda room: read(b'{"a": 1, "a": 2}').problems,
    "bom-removed": lambda room: read(b"\xef\xbb\xbf{}").problems,
    "unknown-key": lambda room: room.config(nonsense_of_mine=1),
    "misplaced-key": lambda room: room.config(offload_optimizer={"device": "cpu"}),
    "deprecated-key": lambda room: room.config(zero={"cpu_offload": True}),
    "wrong-type": lambda room: room.config(zero={"stage": "2"}),
    "value-range": lambda room: parse_spec({**SPEC, "train": {"epochs": -1}})[1],
    "batch-mismatch": lambda room: room.config(train_batch_size=3),
    "auto-unresolved": lambda room: room.config(zero={"stage": "auto"}),
    "precision-conflict": lambda room: room.config(fp16={"enabled": True}, bf16={"enabled": True}),
    "precision-unsupported": lambda room: room.plan("train.precision=fp16"),
    "optimizer-conflict": lambda room: room.config(optimizer={"type": "Nothing"}),
    "scheduler-conflict": lambda room: room.config(scheduler={"type": "Nothing"}),
    "offload-needs-stage": lambda room: room.plan("zero.stage=none", "zero.offload=optimizer"),
    "offload-optimizer": lambda room: room.config(
        zero={"offload_optimizer": {"device": "cpu"}}, optimizer={"type": "Lamb", "params": {}}
    ),
    "offload-toolchain": lambda room: room.plan(
        "zero.stage=2", "zero.offload=optimizer", host=make.host(compiler=None)
    ),
    "nvme-path": lambda room: room.plan("zero.stage=3", "zero.offload=optimizer", "zero.optimizer_device=nvme"),
    "stage3-quantized": lambda room: room.plan("zero.stage=3", model={"quantized": "bitsandbytes"}),
    "stage3-modules-to-save": lambda room: room.plan("zero.stage=3", "method.targets=q_proj,lm_head"),
    "gather-disabled": lambda room: room.plan("zero.stage=3", "method.kind=full", "zero.gather_on_save=false"),
    "unsafe-path": lambda room: room.plan("data.path=/proc/kcore"),
    "stage-unneeded": lambda room: room.plan("zero.stage=2", "devices.count=1"),
    "host-memory": lambda room: room.plan("method.kind=full", model={"parameters": 10**11}),
    "disk-space": lambda room: room.plan(host=make.host(disk_free=1000)),
    "shm-too-small": lambda room: room.plan(host=make.host(2, shm_total=64 << 20)),
    "gpu-unavailable": lambda room: room.plan("devices.gpus=[GPU-9]", host=make.host(1)),
    "gpu-busy": lambda room: room.plan(host=make.host(1, held={"GPU-0": "a-run"})),
    "p2p-unsupported": lambda room: room.plan(host=make.host(make.gpus(2, **CARD), driver="535.54.15")),
    "port-in-use": lambda room: room.busy(),
    "dependency-missing": lambda room: room.plan(host=make.host(packages={"torch": "2.13.0"})),
    "dependency-version": lambda room: room.plan(host=make.host(1), toolchain=TOOLS),
    "model-missing": lambda room: read_model("/no/such/model", Paths(room.folder))[1],
    "model-unsupported": lambda room: room.model(config='{"architectures": ["BertForMaskedLM"]}'),
    "remote-code": lambda room: room.plan(model={"remote_code": True}),
    "data-missing": lambda room: room.plan(absent=True),
    "data-unjudged": lambda room: [problem for problem in [Judgement(done=0.5).problem("d.jsonl")] if problem],
    "data-refused": lambda room: room.plan(data={"usable": 0, "refused": 24, "problems": (BAD_ROW,)}),
    "template-missing": lambda room: room.plan(model={"has_template": False}),
    "template-mismatch": lambda room: room.model(
        tokenizer_config__json=json.dumps({"chat_template": "other"}), chat_template__jinja=HEAD
    ),
    "template-refused": lambda room: room.plan(
        tokens=make.tokens(rows=0, learned=0, refused=24, refusal="no", named={"template-refused": (1,)})
    ),
    "output-exists": lambda room: room.output(),
    "output-not-writable": lambda room: room.plan(output=FolderFacts(path="/closed", exists=True, writable=False)),
    "output-not-shared": lambda room: room.plan(
        "devices.nodes=2", "devices.rendezvous=head:29500",
        output=FolderFacts(path="/here", exists=True, writable=True, filesystem="ext4"),
    ),
    "world-size-changed": lambda room: finding("ValueError: DP world size of 4 but the current world size is 2"),
    "ignored-choice": lambda room: room.plan("zero.stage=none", "zero.overlap_comm=true"),
    "hub-token": lambda room: refused(
        lambda: fetching.fetch(Paths(room.folder), fetching.wanted("hub:a/b"), token="two words")
    ),
}  # fmt: skip


def listed() -> list[str]:
    """The codes in the order of the document."""
    text = (HOME / "docs" / "cli.md").read_text(encoding="utf-8")
    part = re.search(r"Codes of `config`, `plan` and the page's form: (.*?)\n\n", text, re.DOTALL)
    assert part is not None
    return re.findall(r"`([a-z0-9-]+)`", part[1].replace("`config`", ""))


def test_the_table_and_the_list_name_the_same_codes() -> None:
    codes = listed()
    assert len(codes) == len(set(codes))
    assert set(codes) == {*CASES, *WAITING, *ELSEWHERE}
    asked = Path("../shared/design/CLI.md")
    if asked.is_file():
        part = re.search(r"\nCodes: `not-json` \(.*?\.\n", asked.read_text(encoding="utf-8"), re.DOTALL)
        assert part is not None and set(re.findall(r"`([a-z0-9-]{6,})`", part[0])) <= set(codes)


@pytest.mark.parametrize("code", CASES)
def test_each_code_is_provoked_and_said_in_both_languages(code: str, tmp_path: Path, schema: Schema) -> None:
    found = [problem for problem in CASES[code](Room(tmp_path, schema)) if problem.code == code]
    assert found
    for language in LANGUAGES:
        for problem in found:
            told = say(problem.message_key, language, **problem.params)
            assert has(problem.message_key, language) and not re.search(r"\{\w+\}", told), told
