"""The command line: its JSON, its exit codes, one clear line where something is wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import ROOT, make_run, popen
from zeroboard.cli import COMMANDS, main
from zeroboard.cli.face import Face, clock, size
from zeroboard.cli.follow import follow, outcome
from zeroboard.messages import LANGUAGES, has
from zeroboard.paths import Paths
from zeroboard.runs.locks import device_lock
from zeroboard.runs.processes import kill_marked
from zeroboard.services import prepare, runs
from zeroboard.settings import Settings


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    made = Paths(tmp_path / "cache")
    yield made
    for folder in made.runs.glob("*") if made.runs.is_dir() else ():
        kill_marked(folder.name)


class Ran:
    """What a command said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.fixture
def zeroboard(paths: Paths, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*argv: str) -> Ran:
        code = main([*argv, "--cache", str(paths.root)])
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return call


def test_every_command_has_its_help_in_both_languages(zeroboard: Any) -> None:
    for name in COMMANDS:
        assert all(has(f"cli.{name}.help", language) for language in LANGUAGES)
    assert zeroboard("--help").code == 0
    for name in COMMANDS:
        ran = zeroboard(name, "--help")
        assert ran.code == 0 and "cli." not in ran.out and "--json" in ran.out


def test_plan_prints_its_whole_shape_and_writes_nothing(zeroboard: Any, paths: Paths) -> None:
    ran = zeroboard("plan", "demo", "--set", "zero.stage=3", "--json")
    assert ran.code == 0 and not paths.root.exists()
    plan = ran.json
    assert {"argv", "env", "files", "batch", "forecast", "decisions", "problems"} <= set(plan)
    assert plan["batch"] == {
        "micro": 2,
        "accumulation": 2,
        "gpus": plan["batch"]["gpus"],
        "global": 4 * plan["batch"]["gpus"],
    }
    assert plan["forecast"] is None and "ds_z3_config.json" in plan["files"]
    assert all(set(d) == {"field", "value", "reason"} for d in plan["decisions"])
    assert all(d["reason"] and not d["reason"].startswith("decision.") for d in plan["decisions"])


def test_plan_write_makes_a_run_that_is_listed_and_shown(zeroboard: Any, paths: Paths) -> None:
    made = zeroboard("plan", "demo", "--set", "zero.stage=1", "--write", "--json").json
    assert zeroboard("runs", "--json").json["runs"][0]["id"] == made["run_id"]
    shown = zeroboard("show", "last", "--json")
    assert shown.code == 0 and shown.json["state"] == "planned"
    keys = {"id", "state", "spec", "plan", "progress", "metrics", "proof", "findings", "report"}
    assert keys <= set(shown.json) and set(shown.json["progress"]) == {"step", "steps", "epoch", "eta_s"}
    assert zeroboard("show", made["run_id"]).code == 0
    assert made["run_id"] in zeroboard("runs").out


def test_a_plan_with_errors_is_exit_1_with_all_of_them(zeroboard: Any) -> None:
    ran = zeroboard("plan", "demo", "--set", "zero.stage=none", "--set", "zero.offload=all", "--json")
    assert ran.code == 1
    (problem,) = [p for p in ran.json["problems"] if p["severity"] == "error"]
    assert problem["code"] == "offload-needs-stage" and problem["message"] and problem["remedy"]


def test_a_refused_spec_is_exit_1_and_json_on_standard_output(zeroboard: Any) -> None:
    ran = zeroboard("train", "demo", "--set", "zero.stage=7", "--set", "train.epochs=no", "--json")
    assert ran.code == 1
    assert {p["field"] for p in ran.json["problems"]} == {"zero.stage", "train.epochs"}
    assert all({"code", "severity", "field", "message", "remedy"} <= set(p) for p in ran.json["problems"])


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["dance"],
        ["plan"],
        ["plan", "nothing.yaml"],
        ["plan", "demo", "--set", "nonsense"],
        ["show", "nobody"],
        ["show", "last"],
        ["show", "../../etc"],
        ["stop", "nobody"],
        ["verify", "/nowhere/at/all"],
        ["chat", "/nowhere/at/all", "-m", "hi"],
        ["chat", ".", "--json"],
        ["runs", "--lang", "fr"],
    ],
)
def test_wrong_usage_is_exit_2_and_one_line(zeroboard: Any, argv: list[str]) -> None:
    ran = zeroboard(*argv)
    assert ran.code == 2 and ran.out == ""
    assert len(ran.err.strip().splitlines()) == 1 and "Traceback" not in ran.err
    assert "error." not in ran.err and "{" not in ran.err.replace("{ui,", "")


def test_the_language_is_chosen_and_english_is_the_default(zeroboard: Any) -> None:
    assert "没有名为 nobody 的运行" in zeroboard("show", "nobody", "--lang", "zh-CN").err
    assert "There is no run nobody" in zeroboard("show", "nobody").err
    assert "参见" in zeroboard("plan", "--lang=zh-CN").err


def test_an_unexpected_error_names_a_log_and_shows_no_traceback(zeroboard: Any, paths: Paths) -> None:
    paths.root.mkdir(parents=True)
    paths.runs.write_text("this should be a folder")
    ran = zeroboard("plan", "demo", "--write")
    assert ran.code == 1 and "Traceback" not in ran.err and len(ran.err.strip().splitlines()) == 1
    (log,) = paths.logs.glob("error-*.log")
    assert str(log) in ran.err and "Traceback" in log.read_text()
    assert "problems" in zeroboard("plan", "demo", "--write", "--json").json
    with pytest.raises(OSError, match="runs"):
        zeroboard("plan", "demo", "--write", "--debug")


def test_spec_prints_an_example_that_is_a_spec_and_its_schema(zeroboard: Any, tmp_path: Path) -> None:
    example = tmp_path / "example.yaml"
    example.write_text(zeroboard("spec").out)
    assert zeroboard("plan", str(example), "--json").code == 0
    assert "properties" in zeroboard("spec", "--schema").json


def test_doctor_prints_its_whole_shape(zeroboard: Any) -> None:
    ran = zeroboard("doctor", "--json")
    assert set(ran.json) == {"verdict", "checks", "gpus", "host", "packages"}
    assert ran.code == (1 if ran.json["verdict"] == "fail" else 0)
    assert "compiler" in zeroboard("doctor").out


def test_a_run_is_followed_to_its_end_and_told(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(paths, "--save-at", "2")
    runs.start(paths, run.id, popen=popen)
    face = Face(settings=Settings(cache=paths.root), language="en", json=False)
    assert outcome(face, follow(face, run.id)) == 0
    said = capsys.readouterr()
    assert "finished at step 3 of 3" in said.out and str(run.model) in said.out and "zeroboard chat" in said.out
    face = Face(settings=Settings(cache=paths.root), language="en", json=True)
    assert outcome(face, follow(face, run.id)) == 0
    assert json.loads(capsys.readouterr().out)["report"]["verdict"] == "pass"


def test_a_failed_run_is_exit_1_and_says_why(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(paths, "--fail-at", "2")
    runs.start(paths, run.id, popen=popen)
    face = Face(settings=Settings(cache=paths.root), language="en", json=False)
    assert outcome(face, follow(face, run.id)) == 1
    assert "row 7 is bad" in capsys.readouterr().err
    face = Face(settings=Settings(cache=paths.root), language="zh-CN", json=True)
    assert outcome(face, follow(face, run.id)) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["code"] == "python-exception" and finding["rank"] == 1 and "最先失败" in finding["message"]


WATCH = """
import sys
from pathlib import Path
from zeroboard.cli.face import Face
from zeroboard.cli.follow import watch
from zeroboard.settings import Settings
sys.exit(watch(Face(settings=Settings(cache=Path(sys.argv[1])), language="en", json=False), sys.argv[2]))
"""


def test_an_interrupt_ends_the_watching_and_not_the_run(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000")
    runs.start(paths, run.id, popen=popen)
    watcher = subprocess.Popen(
        [sys.executable, "-c", WATCH, str(paths.root), run.id], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    assert watcher.stderr is not None
    with watcher.stderr as said:
        assert said.readline()  # it watches
        watcher.send_signal(signal.SIGINT)
        rest = said.read()
    assert watcher.wait(timeout=10) == 130
    assert f"zeroboard stop {run.id}" in rest and "Traceback" not in rest
    assert runs.stop(paths, run.id, discard=True).state in ("starting", "running", "stopping")
    face = Face(settings=Settings(cache=paths.root), language="en", json=False)
    assert follow(face, run.id).state.state == "stopped"


def test_stop_asks_and_a_run_that_is_not_running_is_refused(zeroboard: Any, paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000")
    assert zeroboard("stop", run.id, "--json").code == 1
    runs.start(paths, run.id, popen=popen)
    ran = zeroboard("stop", run.id, "--discard", "--json")
    assert ran.code == 0 and ran.json["stop"] == "discard"
    face = Face(settings=Settings(cache=paths.root), language="en", json=False)
    assert follow(face, run.id).state.state == "stopped"


def test_a_start_on_a_busy_machine_is_refused_and_leaves_no_folder(zeroboard: Any, paths: Paths) -> None:
    resolved = prepare.plan(paths, prepare.default_spec()).resolved
    assert resolved is not None
    locks = [device_lock(paths, device) for device in resolved.gpus or ("cpu",)]
    assert all(lock.take("20260101-000000-other-z2-0000") for lock in locks)
    try:
        ran = zeroboard("train", "demo", "--json")
    finally:
        for lock in locks:
            lock.release()
    assert ran.code == 1 and ran.json["problems"][0]["code"] == "devices-busy"
    assert "20260101-000000-other-z2-0000" in ran.json["problems"][0]["message"]
    assert zeroboard("runs", "--json").json["runs"] == []


def test_the_registry_comes_at_once_and_without_torch_or_gradio(paths: Paths) -> None:
    code = (
        "import sys; from zeroboard.cli import main; main(['runs', '--cache', sys.argv[1]]);"
        "bad = {'torch', 'transformers', 'gradio', 'numpy', 'pynvml'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, str(paths.root)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begin < 5  # far above what it takes, for a busy machine


def test_sizes_and_times_are_written_for_people() -> None:
    assert [size(n) for n in (None, 5, 1536, 3 << 30, 5 << 40)] == ["–", "5 B", "1.5 KiB", "3.0 GiB", "5120.0 GiB"]
    assert [clock(n) for n in (None, 5, 65, 7384)] == ["–", "0:05", "1:05", "2:03:04"]
