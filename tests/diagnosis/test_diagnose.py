"""Logs to findings, whole: what is found, what is not, and with which line."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.told import ENDED, NOW, STARTED, found, raised, report, step
from zeroboard.diagnosis.diagnose import QUOTED, diagnose

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(STARTED + step() * 4 + ENDED, id="a clean run"),
        pytest.param("A page of words, with an error: in it.\n", id="no log at all"),
        pytest.param('{"text": "RuntimeError: CUDA out of memory"}\nan error: yes\n' + step() * 4 + ENDED, id="data"),
        pytest.param(
            "RuntimeError: told by a row\nKilled\n" + step() * 4 + ENDED, id="data that begins like an exception"
        ),
        pytest.param(step() + raised(OOM) + "trying a smaller batch\n" + step() * 3 + ENDED, id="recovered from"),
        pytest.param("UserWarning: CUDA out of memory, offloading\n" + step() * 4 + ENDED, id="a warning"),
        pytest.param(step() + "{'eval_loss': '0.0', 'epoch': '1'}\n" * 4 + step() + ENDED, id="zero in the evaluation"),
        pytest.param("Downloading 404 Client Error pages of text\n" * 3, id="words of a hub"),
    ],
)
def test_where_nothing_is_wrong_nothing_is_found(tmp_path: Path, text: str) -> None:
    made = found(tmp_path, text)
    assert made.root is None and all(f.code == "benign" for f in made.findings)


def test_all_ranks_out_of_memory_are_one_finding(tmp_path: Path) -> None:
    text = STARTED + "".join(raised(OOM, rank=rank) for rank in (5, 0, 1, 2)) + report(5, 1)
    (finding,) = found(tmp_path, text).findings
    assert (finding.code, finding.rank, finding.severity) == ("cuda-oom", 5, "error")
    assert finding.echoes >= 3 and finding.remedies


def test_the_evidence_is_the_line_of_the_exception_cut(tmp_path: Path) -> None:
    made = found(tmp_path, b"caf\xe9\r\n" + b"\r".join(b"%d%%|#| %d/9 [0<0, 1s/it]" % (n, n) for n in range(9)) + b"\n"
                 + b"\x1b[31mValueError\x1b[0m: " + b"x" * 9000)  # fmt: skip
    evidence = made.findings[0].evidence
    assert evidence is not None and (evidence.file, evidence.line) == ("train.log", 3)
    assert evidence.text.startswith("ValueError: xxx") and len(evidence.text) == QUOTED


def test_noise_is_one_finding_beside_the_cause(tmp_path: Path) -> None:
    noise = (
        " [WARNING]  async_io requires the dev libaio .so object\n`torch_dtype` is deprecated! Use `dtype` instead!\n"
    )
    made = found(tmp_path, noise + raised("ValueError: v"))
    assert [(f.code, f.severity) for f in made.findings] == [("python-exception", "error"), ("benign", "info")]
    assert made.findings[1].params["count"] == 2


def test_a_symptom_beside_a_cause_comes_second(tmp_path: Path) -> None:
    made = found(tmp_path, step("nan", "nan") * 3 + raised("OSError: [Errno 28] No space left on device"))
    assert [f.code for f in made.findings] == ["disk-full", "loss-nan"]


def test_another_known_failure_of_another_rank_is_told_as_well(tmp_path: Path) -> None:
    text = raised(OOM, rank=1) + raised("OSError: [Errno 28] No space left on device", rank=2)
    assert [(f.code, f.rank, f.severity) for f in found(tmp_path, text).findings] == [
        ("cuda-oom", 1, "error"), ("disk-full", 2, "warning"),
    ]  # fmt: skip


def test_a_log_of_echoes_alone_points_to_the_others(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, raised("RuntimeError: Connection closed by peer", rank=0)).findings
    assert (finding.code, finding.says) == ("python-exception", "finding.python-exception.echo")


def test_a_bad_exit_without_a_word_is_told_with_its_code(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, "hello\ntrain.sh: exit code 3\n").findings
    assert (finding.says, finding.params["code"]) == ("finding.python-exception.silent", 3)


def test_a_kill_without_evidence_is_no_full_memory(tmp_path: Path) -> None:
    made = found(tmp_path, step() + "train.sh: line 4: 402 Killed    python train.py\n")
    assert made.root == "killed-by-signal" and made.findings[0].remedies[0].says == "remedy.who-killed"


def test_processes_that_left_at_once_trained_nothing(tmp_path: Path) -> None:
    launch = "[2025-02-10 11:17:46,811] [INFO] [launch.py:256:main] process 10 spawned with command: ['python']\n"
    end = "[2025-02-10 11:18:08,071] [INFO] [launch.py:351:main] Process 10 exits successfully.\n"
    assert found(tmp_path, launch + end).root == "no-training-happened"
    assert found(tmp_path, launch + step() + end).root is None


def test_a_log_that_stopped_long_ago_stands_still_and_a_fresh_one_does_not(tmp_path: Path) -> None:
    text = STARTED + step() * 5 + "2026-03-01 10:00:00 INFO step 5 done\n"
    said = datetime(2026, 3, 1, 10).timestamp()
    assert found(tmp_path, text, now=said + 60).root is None
    made = found(tmp_path, text, now=said + 200_000)
    assert made.root == "stalled" and made.findings[0].evidence is not None and made.findings[0].evidence.line == 7
    assert found(tmp_path, text + ENDED, now=said + 200_000).root is None


def test_a_thousand_warnings_are_one_finding(tmp_path: Path) -> None:
    made = found(tmp_path, "WARNING: tokenization mismatch: 41 vs. 40. (ignored)\n" * 1000)
    assert [(f.code, f.severity, f.params["count"]) for f in made.findings] == [
        ("tokenization-mismatch", "warning", 1000)
    ]


def test_an_empty_log_has_nothing_to_judge(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b" \n\r\n")
    assert diagnose(tmp_path / "a.log", now=NOW) is None
    assert diagnose(tmp_path, now=NOW) is None


CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "logs"


def cases() -> list[Path]:
    return sorted(path.parent for path in CASES.glob("*/expected.json") if (path.parent / "train.log").is_file())


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not on this machine")
@pytest.mark.parametrize("folder", cases(), ids=lambda folder: folder.name)
def test_the_root_of_a_known_case_is_right(folder: Path) -> None:
    expected: Any = json.loads((folder / "expected.json").read_text()).get("expect", {}).get("root")
    made = diagnose(folder / "train.log", now=NOW)
    wanted = expected["any"] if isinstance(expected, dict) else [expected]
    assert (made.root if made is not None else None) in wanted
