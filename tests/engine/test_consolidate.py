"""Real checkpoints of DeepSpeed put together, tensor by tensor against DeepSpeed's own converter; and damaged ones."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import sys
import zipfile
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
from peft import PeftModel
from safetensors.torch import load_file
from torch._weights_only_unpickler import _get_allowed_globals
from transformers import AutoModelForCausalLM

from tests.engine.results import llama
from tests.engine.zero_checkpoints import CASES, name
from zeroboard.checkpoints.consolidate import ALLOWED, ALLOWED_CLASSES
from zeroboard.checkpoints.inspect import inspect
from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import Consolidation
from zeroboard.contract.requests import ConsolidateRequest, Progress
from zeroboard.engine.consolidate import consolidate
from zeroboard.errors import Refused
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.runs.verbs import call

NAMES = [name(ranks, *case) for ranks, cases in CASES.items() for case in cases]
OPTIM = "bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt"
Tensors = dict[str, torch.Tensor]


def put_together(source: Path, target: Path, **request: Any) -> tuple[Consolidation, tuple[Problem, ...]]:
    asked = {"dtype": "fp32", "trust_pickles": True} | request
    return consolidate(ConsolidateRequest(path=str(source), target=str(target), **asked), lambda *said: None)


def weights(folder: Path) -> Tensors:
    return {k: v for file in folder.glob("*.safetensors") for k, v in load_file(file).items()}


def peft_name(name: str) -> str:
    plain = name.replace(".default", "").replace(".modules_to_save", "")
    return plain.removesuffix(".weight") if "magnitude" in plain else plain


def refusal(source: Path, target: Path, **request: Any) -> dict[str | None, Problem]:
    """The problems by their sentence; nothing may have been written beside the target."""
    with pytest.raises(Refused) as error:
        put_together(source, target, **request)
    assert not list(target.parent.glob(".*.part")) and not target.exists()
    for problem in error.value.problems:
        assert all(has(key, language) for key in (problem.message_key, problem.remedy_key) for language in LANGUAGES)
        assert "{" not in say(problem.message_key, **problem.params)
    return {problem.says: problem for problem in error.value.problems}


@pytest.mark.parametrize("case", NAMES)
def test_every_tensor_is_what_deepspeed_makes_of_it(checkpoints: Path, tmp_path: Path, case: str) -> None:
    source = checkpoints / case
    written, warnings = put_together(source, tmp_path / "out", shard_bytes=20_000)
    found, theirs = weights(tmp_path / "out"), get_fp32_state_dict_from_zero_checkpoint(source)
    ranks, stage, model = case.split("-")
    if model == "lora":
        theirs = {peft_name(key): value for key, value in theirs.items()}
        assert sorted(found) == json.loads((source / "expected.json").read_text())
        assert (tmp_path / "out" / "adapter_config.json").read_bytes() == (source / "adapter_config.json").read_bytes()
    if model == "full":  # the output layer is the embedding, and is not written twice
        assert theirs.pop("lm_head.weight") is not None
    if case == "2-1-half":  # at stage 1 DeepSpeed's converter loses what was frozen; the module holds it
        module = torch.load(source / "global_step1" / "mp_rank_00_model_states.pt", weights_only=True)["module"]
        theirs = {key: value.float() for key, value in module.items() if value.is_floating_point()} | theirs
    assert found.keys() == theirs.keys()
    for key, value in found.items():
        floating = value.is_floating_point()
        assert value.dtype == (torch.float32 if floating else theirs[key].dtype)
        assert torch.equal(value, theirs[key].float() if floating else theirs[key]), key
    assert (written.stage, written.world_size, written.step, warnings) == (int(stage), int(ranks), 1, ())
    assert written.tensors == len(found) and written.kind == ("lora-adapter" if model == "lora" else "full-model")
    assert len(written.files) > 1 or model == "lora"
    facts = inspect(source).facts
    assert (facts["stage"], facts["world_size"]) == (int(stage), int(ranks))


@pytest.mark.parametrize(("dtype", "kind"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_smaller_types_are_rounded_as_torch_does_and_the_config_says_so(
    checkpoints: Path, tmp_path: Path, dtype: str, kind: torch.dtype
) -> None:
    put_together(checkpoints / "2-3-half", tmp_path / "out", dtype=dtype)
    theirs = get_fp32_state_dict_from_zero_checkpoint(checkpoints / "2-3-half")
    for key, value in weights(tmp_path / "out").items():
        expected = theirs[key].to(kind) if theirs[key].is_floating_point() else theirs[key]
        assert value.dtype == expected.dtype and torch.equal(value, expected), key
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == str(kind).removeprefix("torch.")


def test_the_result_loads_without_a_word(checkpoints: Path, tmp_path: Path) -> None:
    put_together(checkpoints / "2-3-full", tmp_path / "full", dtype="bf16")
    found: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "full", output_loading_info=True)
    model, info = found
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    put_together(checkpoints / "2-3-lora", tmp_path / "lora")
    tuned = PeftModel.from_pretrained(llama(tied=False), str(tmp_path / "lora"))
    theirs = get_fp32_state_dict_from_zero_checkpoint(checkpoints / "2-3-lora")
    for key, value in theirs.items():
        assert torch.allclose(tuned.state_dict()[key].float(), value, rtol=1e-2, atol=1e-2), key


def test_the_verb_speaks_of_its_progress_and_wants_a_tick_for_foreign_pickles(
    checkpoints: Path, tmp_path: Path
) -> None:
    told: list[Progress] = []
    request = ConsolidateRequest(path=str(checkpoints / "2-2-full"), target=str(tmp_path / "out"))
    answer = call("consolidate", request)
    assert [p.says for p in answer.problems] == ["problem.unsafe-pickle.untrusted"] and answer.value is None
    assert not (tmp_path / "out").exists()
    answer = call("consolidate", request.model_copy(update={"runs": str(checkpoints)}), on_progress=told.append)
    assert answer.problems == () and Consolidation.model_validate(answer.value).files == ("model.safetensors",)
    assert told[0].says == "progress.consolidate.read" and told[-1].says == "progress.consolidate.write"
    assert told[-1].done == 1.0 and all(has(p.says or "", language) for p in told for language in LANGUAGES)


def test_a_link_into_our_runs_is_foreign(checkpoints: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "link").symlink_to(checkpoints / "2-2-full")
    found = refusal(runs / "link", tmp_path / "out", trust_pickles=False, runs=str(runs))
    assert found.keys() == {"problem.unsafe-pickle.untrusted"}


def remove(states: Path) -> None:
    (states / OPTIM.format(1)).unlink()


def cut(states: Path) -> None:
    file = states / OPTIM.format(0)
    file.write_bytes(file.read_bytes()[:-200])


def empty(states: Path) -> None:
    (states / "zero_pp_rank_1_mp_rank_00_model_states.pt").write_bytes(b"")


def dangling(states: Path) -> None:
    (states.parent / "latest").write_text("global_step9")


def mixed(states: Path) -> None:
    other = states.parent.parent / "4-3-half" / "global_step1"
    shutil.copy(other / OPTIM.format(1), states / OPTIM.format(1))


def no_zip(states: Path) -> None:
    (states / OPTIM.format(1)).write_bytes(pickle.dumps({"optimizer_state_dict": {}}))


def foreign(field: str, value: object) -> Callable[[Path], None]:
    """Another value in the states of the optimizer, or in those of the model."""

    def damage(states: Path) -> None:
        inside = field in ("partition_count", "param_alignment_paddings", "fp32_flat_groups", "zero_stage")
        file = states / (OPTIM.format(1) if inside else "zero_pp_rank_1_mp_rank_00_model_states.pt")
        found = torch.load(file, weights_only=False)
        (found["optimizer_state_dict"] if inside else found)[field] = value
        torch.save(found, file)

    return damage


def other_stage(states: Path) -> None:
    other = states.parent.parent / "2-2-half" / "global_step1"
    for rank in range(2):
        shutil.copy(other / OPTIM.format(rank), states / OPTIM.format(rank))


@pytest.mark.parametrize(
    ("damage", "says", "named"),
    [
        (remove, "check.partition.rank-missing", "rank 1"),
        (cut, "check.partition.cut", OPTIM.format(0)),
        (empty, "check.partition.empty", "zero_pp_rank_1_mp_rank_00_model_states.pt"),
        (dangling, "check.partition.latest-dangling", "global_step9"),
        (mixed, "problem.checkpoint-mixed.count", OPTIM.format(1)),
        (no_zip, "problem.checkpoint-damaged.unreadable", OPTIM.format(1)),
        *(
            (foreign(field, value), "problem.checkpoint-damaged.layout", field)
            for field, value in (
                ("partition_count", "two"),
                ("param_alignment_paddings", 3),
                ("fp32_flat_groups", [torch.zeros(2, 2)]),
                ("zero_stage", None),
                ("buffer_names", 0.5),
                ("param_shapes", [3]),
                ("shared_params", []),
            )
        ),
        (other_stage, "problem.checkpoint-mixed.stage", "zero_pp_rank_0_mp_rank_00_model_states.pt"),
    ],
)
def test_damaged_checkpoints_are_refused_by_name(
    checkpoints: Path, tmp_path: Path, damage: Callable[[Path], None], says: str, named: str
) -> None:
    for case in ("2-3-half", "2-2-half", "4-3-half"):
        shutil.copytree(checkpoints / case, tmp_path / case)
    damage(tmp_path / "2-3-half" / "global_step1")
    problem = refusal(tmp_path / "2-3-half", tmp_path / "out")[says]
    assert named in " ".join(map(str, problem.params.values()))


def test_all_damage_is_told_at_once(checkpoints: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoints / "2-3-half", tmp_path / "c")
    states = tmp_path / "c" / "global_step1"
    remove(states)
    empty(states)
    assert refusal(tmp_path / "c", tmp_path / "out", trust_pickles=False).keys() == {
        "check.partition.rank-missing",
        "check.partition.empty",
        "problem.unsafe-pickle.untrusted",
    }


def test_what_is_no_zero_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for place, says in (("folder", None), ("nowhere", "load.missing")):
        assert refusal(tmp_path / place, tmp_path / "out").keys() == {says}


class Acting:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_that_acts_is_named_and_never_run(checkpoints: Path, tmp_path: Path, protocol: int) -> None:
    shutil.copytree(checkpoints / "2-2-full", tmp_path / "c")
    file = tmp_path / "c" / "global_step1" / OPTIM.format(1)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Acting(tmp_path / "acted"), protocol=protocol))
        archive.writestr("archive/version", "3")
    problem = refusal(tmp_path / "c", tmp_path / "out")["problem.unsafe-pickle.global"]
    assert problem.params["names"] == "posix.mkdir" and problem.params["file"] == file.name
    assert not (tmp_path / "acted").exists()


def test_the_reader_itself_allows_no_more_than_the_list(tmp_path: Path) -> None:
    from zeroboard.engine.consolidate_states import load_state

    assert set(ALLOWED) - set(ALLOWED_CLASSES) <= {*_get_allowed_globals(), "__builtin__.set"}
    assert not {name for name in ALLOWED_CLASSES if name in torch.serialization.get_safe_globals()}
    torch.save({"x": Acting(tmp_path / "acted")}, tmp_path / "x.pt")
    with pytest.raises(Refused) as error:
        load_state(tmp_path / "x.pt")
    assert error.value.problems[0].says == "problem.unsafe-pickle.refused"
    assert not (tmp_path / "acted").exists()


def test_a_disk_without_room_is_said_before_anything_is_written(
    checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 1000))
    assert refusal(checkpoints / "2-2-full", tmp_path / "deep" / "out").keys() == {"problem.disk-space.export"}
    assert not (tmp_path / "deep").exists()


def test_a_disk_that_fills_up_leaves_nothing(
    checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    assert refusal(checkpoints / "2-2-full", tmp_path / "out").keys() == {"problem.disk-space.export"}


def test_what_is_cancelled_leaves_nothing(checkpoints: Path, tmp_path: Path) -> None:
    def leave(done: float, says: str, params: object) -> None:
        if says.endswith("write"):
            sys.exit(143)

    request = ConsolidateRequest(path=str(checkpoints / "2-2-full"), target=str(tmp_path / "out"), trust_pickles=True)
    with pytest.raises(SystemExit):
        consolidate(request, leave)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_without_a_config_takes_it_from_the_model_or_says_so(checkpoints: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoints / "2-2-full", tmp_path / "c")
    (tmp_path / "c" / "config.json").unlink()
    _, warnings = put_together(tmp_path / "c", tmp_path / "without")
    assert [(p.code, p.severity, p.params) for p in warnings] == [
        ("config-missing", "warning", {"file": "config.json"})
    ]
    _, warnings = put_together(tmp_path / "c", tmp_path / "with", home=str(checkpoints / "2-2-full"))
    assert warnings == () and (tmp_path / "with" / "config.json").is_file()
