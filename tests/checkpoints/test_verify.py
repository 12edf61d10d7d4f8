from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import folders
from tests.checkpoints.folders import faults, judged, passed
from zeroboard.checkpoints.folder import list_folder
from zeroboard.checkpoints.inspect import inspect
from zeroboard.checkpoints.verify import make_report, verify_files
from zeroboard.contract.reports import CHECK_NAMES, Check, VerifyReport
from zeroboard.errors import NotFound


def test_a_path_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        verify_files(tmp_path / "nothing")
    with pytest.raises(NotFound):
        inspect(tmp_path / "nothing")


def test_folders_that_are_no_result_fail_as_incomplete(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-10").mkdir()
    assert faults(judged(tmp_path / "checkpoint-10")) == {"check.complete.nothing": "fail"}
    folders.write_json(tmp_path / "checkpoint-10" / "trainer_state.json", {"global_step": 10})
    verdict = judged(tmp_path / "checkpoint-10")
    assert verdict.kind == "unknown"
    assert faults(verdict) == {"check.complete.not-a-model": "fail"}
    assert verdict.facts["step"] == 10


@pytest.mark.parametrize("alpha", [float("nan"), float("inf"), 10**4000])
def test_a_fact_is_one_that_can_be_kept(tmp_path: Path, alpha: float) -> None:
    folder = folders.adapter(tmp_path / "a", tmp_path / "base", lora_alpha=alpha, target_modules=["\ud800", "q_proj"])
    folders.write_raw(
        folder / "adapter_model.safetensors", {"\ud800": {"dtype": "\ud800", "shape": [], "data_offsets": [0, 0]}}, b""
    )
    report = make_report(folder, judged(folder))
    assert json.loads(report.model_dump_json())["facts"]["dtype"] == "?"
    assert "alpha" not in report.facts and report.verdict == "fail"


@pytest.mark.parametrize("name", ["a.pt", "b\n.PT", "\x1b[31mc\n/d.pkl"])
def test_a_pickle_is_named_whatever_its_name_is(tmp_path: Path, name: str) -> None:
    folder = folders.model(tmp_path / "m")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"")
    assert faults(judged(folder)) == {"check.unsafe-files.pickle": "warn"}


def test_settings_beside_states_are_judged_as_states_and_an_adapter_as_one(tmp_path: Path) -> None:
    base = folders.model(tmp_path / "base")
    folder = folders.adapter(tmp_path / "adapter", base)
    folders.states(folder)
    verdict = judged(folder)
    assert verdict.kind == "lora-adapter" and "partition" in passed(verdict)
    (folder / "adapter_model.safetensors").write_bytes(b"")
    assert judged(folder).kind == "lora-adapter", "a cut one is still one"
    (folder / "adapter_model.safetensors").unlink()
    verdict = judged(folder)
    assert verdict.kind == "zero-checkpoint" and not faults(verdict) and "partition" in passed(verdict)


def test_a_save_that_was_never_finished_warns(tmp_path: Path) -> None:
    verdict = judged(folders.model(tmp_path / "tmp-checkpoint-3"))
    assert faults(verdict) == {"check.complete.unfinished": "warn"}


def test_a_single_file_is_judged_for_header_size_shapes_and_values(tmp_path: Path) -> None:
    folder = folders.adapter(tmp_path / "a", tmp_path / "base")
    verdict = judged(folder / "adapter_model.safetensors")
    assert verdict.kind == "lora-adapter"
    assert passed(verdict) == {"header", "size", "shapes", "finite", "unsafe-files"}
    verdict = judged(tmp_path / "base" / "model.safetensors")
    assert verdict.kind == "full-model" and not faults(verdict)


def test_a_single_file_of_another_kind_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"cbuiltins\nopen\n(Vx\nVw\ntR.")
    verdict = judged(tmp_path / "x.bin")
    assert verdict.kind == "unknown"
    assert faults(verdict) == {"check.complete.not-safetensors": "fail", "check.unsafe-files.pickle": "warn"}


def test_links_pipes_and_strange_names_are_verdicts(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "模型 with spaces\nand a newline")
    (folder / "gone.safetensors").symlink_to(tmp_path / "nowhere")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.json")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.safetensors")).write_bytes(b"")
    verdict = judged(folder)
    assert faults(verdict) == {"check.complete.special": "warn", "check.shards.stray": "warn"}
    report = make_report(folder, verdict)
    assert VerifyReport.model_validate_json(report.model_dump_json()) == report


def test_a_link_in_a_circle_hides_no_other_file(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in "amz":
        (folder / f"{name}.txt").write_text("x")
    (folder / "circle").symlink_to("circle")
    found = list_folder(folder)
    assert sorted(found.files) == ["a.txt", "m.txt", "z.txt"] and found.special == ("circle",)


def test_a_config_that_is_a_pipe_does_not_hang(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    assert faults(judged(folder))["check.config.missing"] == "fail"


def test_ten_thousand_files_are_quick(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    for number in range(10_000):
        (folder / f"shard {number}.bin").touch()
    assert faults(judged(folder)) == {"check.unsafe-files.pickle": "warn"}


def test_progress_goes_up_to_one(tmp_path: Path) -> None:
    told: list[float] = []
    verify_files(folders.shards(tmp_path / "m"), on_progress=told.append)
    assert told == sorted(told) and told[-1] == 1.0


def test_the_report_orders_the_checks_and_says_what_was_not_tried(tmp_path: Path) -> None:
    report = make_report(tmp_path, verify_files(folders.model(tmp_path / "m")))
    names = [check.name for check in report.checks]
    assert names == sorted(names, key=CHECK_NAMES.index)
    assert names[-2:] == ["load", "effect"]
    assert {check.verdict for check in report.checks[-2:]} == {"skip"}
    assert report.verdict == "pass"
    failed = Check(name="effect", verdict="fail", says="check.effect.none")
    assert make_report(tmp_path, verify_files(tmp_path / "m"), [failed]).verdict == "fail"


def test_memory_stays_small_however_large_the_file(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    arrays = folders.model_arrays()
    tensor = np.zeros((0,), np.float32)
    del tensor
    header = {}
    at = 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    large = 1 << 30
    header["large.weight"] = {"dtype": "F32", "shape": [large // 4], "data_offsets": [at, at + large]}
    folders.write_raw(folder / "model.safetensors", header, b"".join(a.tobytes() for a in arrays.values()))
    with (folder / "model.safetensors").open("r+b") as stream:
        stream.truncate(stream.seek(0, os.SEEK_END) + large)
    script = (
        "import resource, sys, pathlib\n"
        "from zeroboard.checkpoints.verify import verify_files\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "verify_files(pathlib.Path(sys.argv[1]))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(done.stdout) < 32 * 1024  # KiB


def test_headers_alone_are_judged_when_no_value_is_asked_for(tmp_path: Path) -> None:
    arrays = folders.model_arrays()
    arrays["model.norm.weight"][0] = np.nan
    base = folders.model(tmp_path / "base", arrays)
    assert folders.found(folders.judged(base), "check.finite.not-finite").verdict == "fail"
    assert folders.found(folders.judged(base, values=False), "check.finite.not-asked").verdict == "skip"
    adapter = folders.adapter(tmp_path / "a", base)
    said = {check.name: check.verdict for check in folders.judged(adapter, values=False).checks}
    assert said["trained"] == said["finite"] == "skip" and said["keys"] == "pass"
