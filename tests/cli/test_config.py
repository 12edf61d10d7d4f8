"""`zeroboard config`: one sentence for each fault, exit codes, and the schema asked for once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zeroboard.cli import main
from zeroboard.messages import say
from zeroboard.paths import Paths
from zeroboard.runs import verbs
from zeroboard.services import configs

GOOD = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}}
Judge = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def judge(schema_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Judge:
    """Exit code and JSON of the command for a content."""

    def run(content: bytes, *more: str) -> tuple[int, dict[str, Any]]:
        file = tmp_path / "ds.json"
        file.write_bytes(content)
        code = main(["config", str(file), "--json", "--cache", str(schema_cache), *more])
        return code, json.loads(capsys.readouterr().out)

    return run


def test_a_good_file_is_printed_normalised(judge: Judge) -> None:
    code, said = judge(json.dumps(GOOD).encode())
    assert code == 0 and said["problems"] == []
    assert said["config"]["zero_optimization"]["reduce_bucket_size"] == 500_000_000


def test_faults_are_told_with_remedies_in_the_chosen_language(judge: Judge) -> None:
    code, said = judge(b'{"zero_optimization": {"stage": 9}, "zero_optimisation": {}}', "--lang", "zh-CN")
    assert code == 1 and {p["code"] for p in said["problems"]} == {"value-range", "unknown-key", "batch-mismatch"}
    near = next(p for p in said["problems"] if p["code"] == "unknown-key")
    assert near["remedy"] == say("problem.unknown-key.file-nearest.remedy", "zh-CN", nearest="zero_optimization")


def test_what_is_no_json_needs_no_deepspeed(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "schema", lambda paths: pytest.fail("asked"))
    code, said = judge(b"stage: 2")
    assert code == 1 and said["config"] is None and [p["code"] for p in said["problems"]] == ["not-json"]


def test_without_json_people_read_the_file_and_the_faults_beside_it(
    schema_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ds.json"
    file.write_text(json.dumps({**GOOD, "oops": 1}))
    assert main(["config", str(file), "--cache", str(schema_cache)]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["zero_optimization"]["stage"] == 2
    assert say("problem.unknown-key.file", key="oops") in told.err
    assert main(["config", str(tmp_path / "no.json"), "--cache", str(schema_cache)]) == 2
    assert main(["config", str(tmp_path), "--cache", str(schema_cache)]) == 2


def test_deepspeed_is_asked_once_and_again_where_the_answer_is_damaged(
    schema_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = configs.schema(Paths(schema_cache))
    paths = Paths(tmp_path / "cache")
    asked: list[str] = []

    def answer(verb: str, *given: object, **named: object) -> Any:
        asked.append(verb)
        return verbs.Answer(value=known.model_dump(mode="json"))

    monkeypatch.setattr(verbs, "call", answer)
    assert configs.schema(paths) == configs.schema(paths) == known and asked == ["schema"]
    (kept,) = paths.schemas.iterdir()
    assert known.version in kept.name
    kept.write_text("{")
    assert configs.schema(paths) == known and asked == ["schema", "schema"]


def test_without_deepspeed_the_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: Judge) -> None:
    monkeypatch.setattr(configs, "packages", dict)
    code, said = judge(json.dumps(GOOD).encode())
    assert code == 1 and [p["code"] for p in said["problems"]] == ["dependency-missing"]


def test_what_a_run_would_take_over_is_told_and_what_it_would_not(judge: Judge) -> None:
    code, said = judge(json.dumps({**GOOD, "steps_per_print": 5, "prescale_gradients": True}).encode())
    assert code == 0 and said["fields"]["train.micro_batch"] == 2 and said["fields"]["zero.bucket_size"] == 500_000_000
    assert {(p["field"], p["severity"]) for p in said["untaken"]} == {
        ("steps_per_print", "warning"),
        ("prescale_gradients", "error"),
    }


def test_a_plan_takes_a_file_over_and_set_goes_before_it(
    schema_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ds.json"
    file.write_text(json.dumps({**GOOD, "bf16": {"enabled": False}, "steps_per_print": 5}))
    argv = ["plan", "demo", "--config", str(file), "--json", "--cache", str(schema_cache)]
    assert main([*argv, "--set", "train.accumulation=7", "--set", "devices.count=1"]) == 0
    plan = json.loads(capsys.readouterr().out)
    made = json.loads(plan["files"]["ds_z2_config.json"])
    assert (made["train_micro_batch_size_per_gpu"], made["gradient_accumulation_steps"]) == (2, 7)
    assert "steps_per_print" in {p["field"] for p in plan["problems"]}
    file.write_text(json.dumps({**GOOD, "prescale_gradients": True, "gradient_clipping": -1}))
    assert main(argv) == 1
    refused = json.loads(capsys.readouterr().out)["problems"]
    assert {p["field"] for p in refused} == {"prescale_gradients", "gradient_clipping"}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\xef\xbb\xbf" + json.dumps(GOOD).encode(), "bom-removed"),
        (json.dumps(GOOD).encode("utf-16"), "bom-removed"),
        (b'{"zero_optimization": {"stage": 2} // why\n}', "not-json"),
        (b'{"zero_optimization": {"stage": 2, "stage": 3}, "train_micro_batch_size_per_gpu": 1}', "duplicate-key"),
        (b'{"gradient_clipping": NaN}', "not-json"),
        (b'{"gradient_clipping": 1e999, "train_micro_batch_size_per_gpu": 1}', "not-json"),
        (b'{"x": "' + b"a" * (50 << 20) + b'"}', "not-json"),
        (b"[1]", "not-json"),
        (b"null", "not-json"),
        (b'{"train_batch_size": 0, "train_micro_batch_size_per_gpu": 0}', "value-range"),
        (b'{"train_batch_size": 1%030d, "zero_optimization": {"reduce_bucket_size": 1e30}}' % 0, "value-range"),
        (b'{"train_batch_size": ' + b"9" * 6000 + b"}", "not-json"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "not-json"),
    ],
    ids=lambda given: given[:24].hex() if isinstance(given, bytes) else given,
)  # fmt: skip
def test_whatever_is_brought_is_told_as_a_problem_by_every_door(
    judge: Judge, schema_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, code: str
) -> None:
    passes = code == "bom-removed"
    ended, said = judge(content)
    assert ended == (0 if passes else 1) and code in {problem["code"] for problem in said["problems"]}
    argv = ["plan", "demo", "--config", str(tmp_path / "ds.json"), "--json", "--cache", str(schema_cache)]
    assert main(argv) == (0 if passes else 1)
    assert code in {problem["code"] for problem in json.loads(capsys.readouterr().out)["problems"]}


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ("devices.count=0", "devices.count"),
        ("devices.count=1" + "0" * 30, "devices.count"),
        ("data.max_length=0", "data.max_length"),
        ("train.micro_batch=1" + "0" * 30, "train.micro_batch"),
        ("zero.sub_group_size=1" + "0" * 30, "zero.sub_group_size"),
        ("train.learning_rate=.nan", "train.learning_rate"),
    ],
)
def test_absurd_numbers_in_a_spec_are_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, field: str
) -> None:
    assert main(["plan", "demo", "--set", setting, "--json", "--cache", str(tmp_path)]) == 1
    assert [(p["code"], p["field"]) for p in json.loads(capsys.readouterr().out)["problems"]] == [
        ("value-range", field)
    ]
