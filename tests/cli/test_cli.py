"""The command line: its JSON, its exit codes, one clear line where something is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
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
from zeroboard.services import prepare, runs
from zeroboard.settings import Settings


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
    assert keys <= set(shown.json) and {"step", "steps", "epoch", "eta_s"} <= set(shown.json["progress"])
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


def test_an_unexpected_error_names_a_log_and_shows_no_traceback(
    zeroboard: Any, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(paths: Paths) -> None:
        raise RuntimeError("no error of ours")

    monkeypatch.setattr(runs, "list_runs", broken)
    ran = zeroboard("runs")
    assert ran.code == 1 and "Traceback" not in ran.err and len(ran.err.strip().splitlines()) == 1
    (log,) = paths.logs.glob("error-*.log")
    assert str(log) in ran.err and "Traceback" in log.read_text()
    assert zeroboard("runs", "--json").json["problems"][0]["code"] == "unexpected"
    with pytest.raises(RuntimeError, match="no error of ours"):
        zeroboard("runs", "--debug")


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


def test_what_the_operating_system_refuses_is_said_in_words(zeroboard: Any, paths: Paths) -> None:
    paths.root.mkdir(parents=True)
    paths.runs.write_text("this should be a folder")
    ran = zeroboard("plan", "demo", "--write")
    assert ran.code == 1 and str(paths.runs) in ran.err and not paths.logs.exists()
    (problem,) = zeroboard("plan", "demo", "--write", "--json").json["problems"]
    assert problem["code"] == "output-not-writable" and problem["remedy"]


HOPELESS = ("a\0b", "x" * 5000, "~nobody-of-this-name/x", "loop", "pipe", "")
"""Names behind which no file can be, or only one that must not be waited for."""


@pytest.mark.parametrize("name", HOPELESS)
@pytest.mark.parametrize(
    "argv", [["plan"], ["data"], ["verify"], ["chat", "-m", "hi"], ["diagnose"], ["verify", ".", "--base"]]
)
def test_a_name_behind_which_nothing_can_be_is_wrong_usage_in_one_line(
    zeroboard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, argv: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    os.mkfifo("pipe")
    if name == "pipe" and argv[0] in ("verify", "chat"):
        return  # something is there, which verify judges and chat refuses
    ran = zeroboard(*argv, name)
    if name == "pipe" and argv == ["data"]:
        assert ran.code == 1 and "path-refused" in zeroboard(*argv, name, "--json").out
        return  # something is there, which is judged and refused as a whole
    assert ran.code == 2 and ran.out == "" and len(ran.err.splitlines()) == 1, ran.err


@pytest.mark.parametrize("name", HOPELESS[:-1])
def test_such_a_name_in_a_spec_is_a_problem_of_its_field(
    zeroboard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    os.mkfifo("pipe")
    ran = zeroboard("plan", "demo", "--set", f"model.path={name}", "--set", f"data.path={name}", "--json")
    found = {p["field"]: p["code"] for p in ran.json["problems"]}
    assert ran.code == 1 and found["model.path"] == "model-missing"
    assert found["data.path"] == ("data-refused" if name == "pipe" else "data-missing")


def test_a_name_that_is_no_text_is_told_as_such(zeroboard: Any, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    Path(odd).mkdir()
    for command in ("verify", "data", "diagnose"):
        ran = zeroboard(command, odd)
        assert ran.code == 2 and "UTF-8" in ran.err
    (problem,) = zeroboard("plan", "demo", "--set", f"model.path={odd}", "--json").json["problems"]
    assert (problem["code"], problem["field"]) == ("value-range", "model.path") and "UTF-8" in problem["message"]


def test_a_cache_that_is_no_folder_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    for cache in (str(file), str(file / "below"), "~nobody-of-this-name/x", "x" * 5000, "a\0b"):
        assert main(["runs", "--json", "--cache", cache]) == 2
        said = capsys.readouterr()
        assert said.out == "" and len(said.err.splitlines()) == 1


def test_a_text_from_elsewhere_commands_no_terminal(zeroboard: Any, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text('"\\e[2J\\u202ehidden": 1\nname: "\\e]0;title\\a"\n')
    ran = zeroboard("plan", str(spec))
    assert ran.code == 1 and "\\x1b[2J\\u202ehidden" in ran.err
    assert not set(ran.err) & {"\x1b", "\a", "\u202e"}


@pytest.mark.parametrize(
    ("redirect", "code", "words"),
    [
        (">&-", 0, ""),
        (">&- 2>&-", 0, ""),
        ("| true", 1, ""),
        ("> /dev/full", 1, "could not be written: No space left on device"),
        ("2> /dev/full", 0, ""),
        ("< /dev/null", 0, ""),
        ("<&-", 0, ""),
    ],
)
@pytest.mark.parametrize("form", ["", "--json"])
def test_streams_that_are_closed_full_or_gone_make_no_traceback(
    paths: Paths, redirect: str, code: int, words: str, form: str
) -> None:
    line = f'set -o pipefail; "{sys.executable}" -m zeroboard --cache "{paths.root}" runs {form} {redirect}'
    ran = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, "Traceback" in ran.stderr) == (code, False), ran.stderr
    assert words in ran.stderr and (words or not ran.stderr)


def test_a_stream_without_letters_still_gets_the_words_and_strict_json(paths: Paths) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    line = [sys.executable, "-m", "zeroboard", "--lang", "zh-CN", "--cache", str(paths.root / "🚀")]
    for argv in (["runs"], ["--help"], ["plan", "nothing.yaml"], ["plan", "demo", "--json"]):
        ran = subprocess.run(
            [*line, *argv], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == (2 if "nothing.yaml" in argv else 0) and "Traceback" not in ran.stderr, ran.stderr
    assert "🚀" in json.loads(ran.stdout)["folder"]


def test_a_folder_that_is_gone_under_our_feet_is_said_in_one_line(tmp_path: Path) -> None:
    line = f'cd "{tmp_path}" && mkdir gone && cd gone && rmdir ../gone && "{sys.executable}" -m zeroboard runs'
    ran = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2 and len(ran.stderr.splitlines()) == 1 and "--cache" in ran.stderr


@pytest.mark.parametrize("port", ["-1", "65536", "abc", ""])
def test_a_port_that_is_none_is_wrong_usage(zeroboard: Any, port: str) -> None:
    ran = zeroboard("ui", f"--port={port}")
    assert ran.code == 2 and len(ran.err.splitlines()) == 1


def test_a_file_for_the_login_that_is_none_is_wrong_usage(zeroboard: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_text("x" * 100_000)
    for name in ("/dev/zero", str(tmp_path / "pipe"), str(tmp_path), str(tmp_path / "long"), "/nowhere"):
        ran = zeroboard("ui", "--auth-file", name)
        assert ran.code == 2 and len(ran.err.splitlines()) == 1
