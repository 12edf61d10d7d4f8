from __future__ import annotations

import pickletools
from pathlib import Path

import pytest

from tests.checkpoints import folders
from tests.checkpoints.folders import faults, found, judged, passed
from zeroboard.checkpoints import pickles
from zeroboard.checkpoints.inspect import inspect

OPTIM = "bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt"
TOLD = b"\x80\x02}q\x00X\x0d\x00\x00\x00dp_world_sizeq\x01K\x04s."
"""{"dp_world_size": 4}, as a pickle."""


@pytest.mark.parametrize("stage", [2, 3])
def test_whole_states_pass(tmp_path: Path, stage: int) -> None:
    verdict = judged(folders.states(tmp_path / "checkpoint-4", stage=stage))
    assert verdict.kind == "zero-checkpoint"
    assert not faults(verdict)
    assert "partition" in passed(verdict)
    assert verdict.facts["world_size"] == 2


def test_the_file_that_holds_the_template_is_told(tmp_path: Path) -> None:
    folder = folders.states(tmp_path / "checkpoint-4")
    assert "template" not in inspect(folder).facts
    (folder / "tokenizer_config.json").write_text('{"chat_template": "{{ x }}"}')
    assert inspect(folder).facts["template"] == "tokenizer_config.json"
    (folder / "chat_template.jinja").write_text("{{ x }}")
    assert inspect(folder).facts["template"] == "chat_template.jinja"


def test_a_missing_rank_is_named(tmp_path: Path) -> None:
    folder = folders.states(tmp_path / "checkpoint-4")
    (folder / "global_step4" / OPTIM.format(1)).unlink()
    verdict = judged(folder)
    assert faults(verdict) == {"check.partition.rank-missing": "fail"}
    assert found(verdict, "check.partition.rank-missing").params["names"] == "rank 1"


def test_a_missing_last_rank_shows_in_the_random_states(tmp_path: Path) -> None:
    folder = folders.states(tmp_path / "checkpoint-4", stage=2)
    for rank in range(3):
        folders.write_zip(folder / f"rng_state_{rank}.pth")
    assert found(judged(folder), "check.partition.rank-missing").params["names"] == "rank 2"


def test_a_missing_last_rank_shows_in_the_opcodes(tmp_path: Path) -> None:
    folder = folders.states(tmp_path / "checkpoint-4", stage=2)
    folders.write_zip(folder / "global_step4" / "mp_rank_00_model_states.pt", TOLD)
    assert found(judged(folder), "check.partition.rank-missing").params["names"] == "rank 2, rank 3"


def test_latest_that_leads_nowhere_fails(tmp_path: Path) -> None:
    folder = folders.states(tmp_path / "checkpoint-4")
    (folder / "latest").write_text("global_step6\n")
    verdict = judged(folder)
    assert faults(verdict) == {"check.partition.latest-dangling": "fail"}
    (folder / "latest").write_text("../../elsewhere")
    assert faults(judged(folder)) == {"check.partition.latest-dangling": "fail"}


def test_empty_and_cut_states_are_named(tmp_path: Path) -> None:
    folder = folders.states(tmp_path / "checkpoint-4") / "global_step4"
    (folder / OPTIM.format(0)).write_bytes(b"")
    whole = (folder / OPTIM.format(1)).read_bytes()
    (folder / OPTIM.format(1)).write_bytes(whole[:-30])
    assert faults(judged(folder.parent)) == {"check.partition.empty": "fail", "check.partition.cut": "fail"}


def test_missing_model_states_fail(tmp_path: Path) -> None:
    folder = folders.states(tmp_path / "checkpoint-4", stage=2)
    (folder / "global_step4" / "mp_rank_00_model_states.pt").unlink()
    assert faults(judged(folder)) == {"check.partition.no-model-states": "fail"}


def test_an_adapter_beside_states_is_an_adapter(tmp_path: Path) -> None:
    folder = folders.states(tmp_path / "checkpoint-4", stage=2)
    folders.adapter(folder, tmp_path / "base")
    verdict = judged(folder)
    assert verdict.kind == "lora-adapter"
    assert not faults(verdict)
    assert {"trained", "partition"} <= passed(verdict)


def test_a_huge_rank_number_costs_nothing(tmp_path: Path) -> None:
    folder = folders.states(tmp_path / "checkpoint-4")
    folders.write_zip(folder / "global_step4" / OPTIM.format(99_999_999_999))
    assert not faults(judged(folder))


def test_fsdp_shards_are_counted(tmp_path: Path) -> None:
    inside = tmp_path / "checkpoint-2" / "pytorch_model_fsdp_0"
    inside.mkdir(parents=True)
    for rank in (0, 2):
        (inside / f"__{rank}_0.distcp").write_bytes(b"x")
    verdict = judged(inside.parent)
    assert verdict.kind == "fsdp-checkpoint"
    assert faults(verdict) == {"check.partition.no-metadata": "fail", "check.partition.rank-missing": "fail"}


def test_opcodes_are_read_and_nothing_is_executed(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    act = (
        b"cbuiltins\nopen\n(X"
        + len(str(marker)).to_bytes(4, "little")
        + str(marker).encode()
        + b"X\x01\x00\x00\x00wtR."
    )
    assert "REDUCE" in {opcode.name for opcode, _, _ in pickletools.genops(act)}  # it would run if it were loaded
    folders.write_zip(tmp_path / "x.pt", TOLD[:-1] + act)
    assert pickles.numbers(tmp_path / "x.pt", ["dp_world_size"]) == {"dp_world_size": 4}
    assert not marker.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02", b"nonsense" * 100])
def test_a_file_without_opcodes_has_no_numbers(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.pt").write_bytes(content)
    assert pickles.numbers(tmp_path / "x.pt", ["dp_world_size"]) == {}
    folders.write_zip(tmp_path / "y.pt", content)
    assert pickles.numbers(tmp_path / "y.pt", ["dp_world_size"]) == {}


def test_numbers_in_an_enumeration_and_in_a_list_are_found(tmp_path: Path) -> None:
    stage = b"X\x0a\x00\x00\x00zero_stageq\x01cdeepspeed.runtime.zero.config\nZeroStageEnum\nq\x02K\x02\x85q\x03Rq\x04"
    count = b"X\x0f\x00\x00\x00partition_countq\x05]q\x06K\x03a"
    folders.write_zip(tmp_path / "x.pt", b"\x80\x02}q\x00(" + stage + count + b"u.")
    found = pickles.numbers(tmp_path / "x.pt", ("zero_stage", "partition_count"))
    assert found == {"zero_stage": 2, "partition_count": 3}


@pytest.mark.parametrize(
    ("pickle", "names"),
    [
        (b"\x80\x02cos\nsystem\n.", {"os.system"}),
        (b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93.", {"os.system"}),
        (b"\x80\x04\x8c\x02os\x940\x8c\x06system\x94\x93.", {"?"}),
        (b"(ios\nsystem\n.", {"os.system"}),
        (b"\x80\x02}.", set()),
        (b"\x80\x02cos", None),
    ],
)
def test_what_a_pickle_would_import_is_named(tmp_path: Path, pickle: bytes, names: set[str] | None) -> None:
    folders.write_zip(tmp_path / "x.pt", pickle)
    assert pickles.globals_in(tmp_path / "x.pt") == names
