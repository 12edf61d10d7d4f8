"""The doctor: every check has a verdict, and a bad one a remedy."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from zeroboard import swapfolders
from zeroboard.files import read_json, to_json, write_atomic
from zeroboard.messages import LANGUAGES, has
from zeroboard.paths import Paths
from zeroboard.services import words
from zeroboard.services.doctor import doctor

NAMES = [
    "nvml", "driver", "gpus", "torch-cuda", "capability", "p2p", "deepspeed", "ops", "compiler", "memory", "disk",
    "output", "swap", "shm", "packages", "conflicts", "environment", "model", "port",
]  # fmt: skip


def test_every_check_is_there_by_its_name_and_has_sentences(tmp_path: Path) -> None:
    report = doctor(Paths(tmp_path))
    assert [check.name for check in report.checks] == NAMES
    for check in report.checks:
        assert all(has(check.says, language) for language in LANGUAGES)
        assert check.verdict in ("pass", "skip") or has(check.remedy_key)
    said = words.doctor(report, "zh-CN")
    assert set(said) == {"verdict", "checks", "gpus", "host", "packages"}
    assert all("{" not in check["detail"] for check in said["checks"])


def test_a_port_that_is_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        check = doctor(Paths(tmp_path), port=port).checks[-1]
    assert check.verdict == "warn" and check.params == {"port": port}


def test_what_a_run_that_is_gone_has_left_on_a_disk_is_named_with_its_size(tmp_path: Path) -> None:
    paths, folder = Paths(tmp_path / "cache"), tmp_path / "fast" / "a-run"
    folder.parent.mkdir()
    run = paths.run("a-run")
    config = {"zero_optimization": {"offload_optimizer": {"device": "nvme", "nvme_path": str(folder)}}}
    write_atomic(run.folder / swapfolders.CONFIG, to_json(config))
    swapfolders.claim(folder, run, started=time.time())
    mark = read_json(folder / swapfolders.MARK)
    write_atomic(folder / swapfolders.MARK, to_json(mark | {"started": 1.0}))  # that process is gone
    with (folder / "0.tensor.swp").open("wb") as swapped:
        swapped.truncate(3 << 29)
    (found,) = [check for check in doctor(paths).checks if check.name == "swap"]
    assert found.verdict == "warn" and found.params["size"] == "1.5" and str(folder) in str(found.params["names"])
    assert all(has(key, language) for key in (found.says, found.remedy_key) for language in LANGUAGES)
    assert folder.is_dir()
