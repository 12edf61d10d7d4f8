"""The doctor: every check has a verdict, and a bad one a remedy."""

from __future__ import annotations

import socket
from pathlib import Path

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
