"""An export as the command line and the page do it: judged, whole or not at all, found again, ended."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import yaml
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.engine.results import letters_base, make_adapter
from zeroboard.checkpoints.verify import verify_files
from zeroboard.contract.exports import ExportReport, ExportState, ExportWish
from zeroboard.contract.problems import Problem
from zeroboard.contract.requests import Answer
from zeroboard.contract.state import ProcessMark
from zeroboard.engine import compare
from zeroboard.engine import export as engine_export
from zeroboard.errors import NotFound, Refused, UnsafePath, UsageError
from zeroboard.messages import LANGUAGES, has
from zeroboard.paths import Paths
from zeroboard.runs import verbs
from zeroboard.services import export_work, exporting, exports, words

BARE = """
import json, sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("zeroboard", "deepspeed", "peft"):
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
for name in ("zeroboard", "deepspeed", "peft"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{name} can be imported")
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, question = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
ids = tokenizer.apply_chat_template(
    [{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=True
)["input_ids"]
with torch.no_grad():
    logits = model(ids).logits[0, -1]
ends = model.generation_config.eos_token_id
print(json.dumps({"ids": ids.tolist(), "logits": logits.tolist(), "ends": ends, "known": sorted(sys.modules)}))
"""
"""Loads a folder where neither ZeroBoard nor DeepSpeed nor peft can be imported."""


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory, tiny_model_folder: Path) -> Path:
    return make_adapter(tmp_path_factory.mktemp("results") / "adapter", tiny_model_folder)


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory, adapter: Path) -> tuple[Paths, ExportReport, list[ExportState]]:
    """One adapter merged and delivered under a name that is no easy one; shared by what looks at the result."""
    paths = Paths(tmp_path_factory.mktemp("exports") / "cache")
    wish = exporting.wish(paths, str(adapter), paths.exports / "合并 的\n模型", merge=True, language="zh-CN")
    told: list[ExportState] = []
    state, job = exporting.run(paths, wish, on_state=told.append)
    assert (state.state, state.problems) == ("finished", ())
    report = exports.read_report(job)
    assert report is not None
    return paths, report, told


def test_what_was_exported_loads_where_nothing_of_ours_is(
    merged: tuple[Paths, ExportReport, Any], adapter: Path, tiny_model_folder: Path
) -> None:
    _, report, _ = merged
    question = "What does stage three do?"
    done = subprocess.run(
        [sys.executable, "-I", "-W", "ignore", "-c", textwrap.dedent(BARE), report.path, question],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert not {"zeroboard", "deepspeed", "peft"} & {name.partition(".")[0] for name in found["known"]}
    base = AutoModelForCausalLM.from_pretrained(tiny_model_folder, dtype=torch.float32)
    tuned = PeftModel.from_pretrained(base, str(adapter)).eval()
    with torch.no_grad():
        wanted = tuned(torch.tensor(found["ids"])).logits[0, -1]
        with tuned.disable_adapter():
            before = tuned(torch.tensor(found["ids"])).logits[0, -1]
    given = torch.tensor(found["logits"])
    torch.testing.assert_close(given, wanted, atol=1e-4, rtol=1e-4)
    assert (given - before).abs().max() > 0.01
    end = AutoTokenizer.from_pretrained(adapter).convert_tokens_to_ids("<|im_end|>")
    assert end in (found["ends"] if isinstance(found["ends"], list) else [found["ends"]])


def test_it_is_verified_and_the_card_says_so(merged: tuple[Paths, ExportReport, Any]) -> None:
    paths, report, _ = merged
    folder = Path(report.path)
    checks = {check.name: check.verdict for check in report.verification.checks}
    assert (checks["merge"], checks["load"], checks["effect"], report.verification.verdict) == ("pass",) * 4
    card = (folder / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(card.split("---")[1])
    assert front["library_name"] == "transformers"
    assert {"zeroboard", "lora"} <= set(front["tags"])
    assert "# 合并 的 模型\n" in card
    assert str(paths.root) not in card
    written = "".join(f.read_text(encoding="utf-8") for f in folder.iterdir() if f.suffix in (".json", ".md", ""))
    assert str(folder.parent) not in written
    assert {file.name for file in report.files} == {file.name for file in folder.iterdir()}
    assert sum(f.stat().st_size for f in folder.iterdir()) == report.bytes
    modelfile = (folder / "Modelfile").read_text(encoding="utf-8")
    assert modelfile.startswith("FROM .\n")
    assert 'PARAMETER stop "<|im_end|>"' in modelfile
    assert verify_files(folder).kind == "full-model"


def test_it_tells_how_far_it_is_and_leaves_nothing_beside(merged: tuple[Paths, ExportReport, Any]) -> None:
    paths, report, told = merged
    assert list(dict.fromkeys(state.phase for state in told)) == ["weights", "check"]
    assert any(state.done is not None and 0 < state.done <= 1 for state in told if state.phase == "weights")
    assert {entry.name for entry in paths.exports.iterdir()} == {".jobs", Path(report.path).name}
    (known,) = exports.list_exports(paths)
    said = words.export(known, report, "zh-CN")
    assert (said["state"], said["verdict"], said["problems"]) == ("finished", "pass", [])


def wish(paths: Paths, path: Path, **changes: Any) -> ExportWish:
    known: dict[str, Any] = {
        "word": str(path), "path": str(path), "kind": "lora-adapter", "target": str(paths.exports / "out"),
    }  # fmt: skip
    return ExportWish(**{**known, **changes})


def codes(problems: tuple[Problem, ...]) -> list[str]:
    for problem in problems:
        assert all(has(problem.message_key, language) for language in LANGUAGES)
    return [problem.code for problem in problems]


def test_everything_in_the_way_is_told_before_anything_is_written(
    paths: Paths, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").write_text("keep")
    asked = wish(
        paths, adapter, target=str(taken), gguf="q4_k_m", llama_cpp=str(tmp_path), push="a b/c", merge=False
    )  # fmt: skip
    found = codes(exports.judge(paths, asked, token=None))
    assert found == ["output-exists", "gguf-needs-model", "gguf-missing", "push-name", "push-token"]
    with pytest.raises(Refused):
        exports.create(paths, asked)
    assert not paths.export_jobs.exists()
    assert (taken / "mine.txt").read_text() == "keep"
    inside = wish(paths, adapter, target=str(adapter / "out"))
    assert codes(exports.judge(paths, inside)) == ["export-inside"]
    lost = wish(paths, adapter, merge=True, base=str(tmp_path / "nowhere"))
    assert codes(exports.judge(paths, lost)) == ["model-missing"]
    monkeypatch.setattr("zeroboard.checkpoints.consolidate.MARGIN", 1 << 60)
    assert codes(exports.judge(paths, wish(paths, adapter))) == ["disk-space"]


def test_the_page_writes_nowhere_but_into_its_folder(paths: Paths, tmp_path: Path) -> None:
    assert exports.page_target(paths, " 我的 模型 ") == paths.exports / "我的 模型"
    paths.exports.mkdir(parents=True, exist_ok=True)
    (paths.exports / "link").symlink_to(tmp_path)
    for name in ("/etc/out", "a/b", "a/../../out", "link"):
        with pytest.raises(UnsafePath):
            exports.page_target(paths, name)
    for name in ("", "..", "../out", ".jobs", "a\0b", "x" * 300):
        with pytest.raises(UsageError):
            exports.page_target(paths, name)


def test_sizes_are_read_as_people_write_them() -> None:
    assert [exports.parse_size(text) for text in ("5GB", "500 mb", "2GiB", "1.5g", "2000000")] == [
        5_000_000_000, 500_000_000, 2 << 30, 1_500_000_000, 2_000_000,
    ]  # fmt: skip
    for text in ("", "0", "-1GB", "5 apples", "1KB", "nan", "9" * 400):
        with pytest.raises(UsageError):
            exports.parse_size(text)


def test_a_cancelled_export_leaves_nothing(paths: Paths, adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = exports.create(paths, wish(paths, adapter))

    def call(verb: str, request: Any, *, cancelled: Any, **rest: Any) -> Any:
        half = Path(request.target)
        half.mkdir()
        (half / "model.safetensors").write_bytes(b"half")
        exports.cancel(paths, job.id)
        assert cancelled()
        raise verbs.Cancelled

    monkeypatch.setattr(export_work.verbs, "call", call)
    state = export_work.work(paths, job, None)
    assert state.state == exports.read_state(job).state == "cancelled"
    assert [entry.name for entry in paths.exports.iterdir()] == [".jobs"]
    exports.forget(paths, job.id)
    assert exports.list_exports(paths) == ()


def test_a_disk_that_fills_is_told_and_leaves_nothing(
    paths: Paths, adapter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **rest: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export_work.verbs, "call", full)
    job = exports.create(paths, wish(paths, adapter))
    state = export_work.work(paths, job, None)
    assert (state.state, codes(state.problems)) == ("failed", ["disk-space"])
    assert [entry.name for entry in paths.exports.iterdir()] == [".jobs"]


def sparse_model(folder: Path, like: Path, megabytes: int) -> Path:
    """A model of many tensors whose files hold no blocks; reading and writing it is real."""
    shutil.copytree(like, folder)
    entries = {
        f"t{at}": {"dtype": "F32", "shape": [1 << 18], "data_offsets": [at << 20, (at + 1) << 20]}
        for at in range(megabytes)
    }
    header = json.dumps(entries).encode()
    with (folder / "model.safetensors").open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        stream.truncate(8 + len(header) + (megabytes << 20))
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 240 MB, whose last block can really be taken."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=240m", "none", str(place)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("no small disk can be mounted here: that takes root and leave to mount")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> None:
    """To the last block, as another program would."""
    with (disk / "other").open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while stream.write(bytes(1 << 16)):
            pass


def while_it_writes(paths: Paths, act: Callable[[], None], written: list[int]) -> export_work.OnState:
    """Does something once the first bytes of weights are there; the engine waits for it."""

    def on_state(state: ExportState) -> None:
        if written or state.state != "running" or state.says != "progress.export.write":
            return
        engines = [child for child in psutil.Process().children() if "zeroboard.engine" in child.cmdline()]
        for engine in engines:  # or it might be done before
            engine.suspend()
        written.append(sum(file.stat().st_blocks for file in paths.exports.rglob("*.safetensors")))
        act()
        for engine in engines:
            engine.resume()

    return on_state


def test_a_disk_that_really_fills_while_it_is_written_is_told_and_leaves_nothing(
    small_disk: Path, tiny_model_folder: Path, tmp_path: Path
) -> None:
    """The record lies on the full disk too."""
    paths = Paths(small_disk / "cache")
    source = sparse_model(tmp_path / "source", tiny_model_folder, 150)
    job = exports.create(paths, wish(paths, source, kind="full-model"))
    written: list[int] = []
    state = export_work.work(paths, job, None, while_it_writes(paths, lambda: fill(small_disk), written))
    assert written[0] > 0
    assert (state.state, codes(state.problems)) == ("failed", ["disk-space"])
    assert state.problems[0].params["path"] == str(paths.exports)
    assert exports.read_state(job) == state
    assert [entry.name for entry in paths.exports.iterdir()] == [".jobs"]
    assert {entry.name for entry in job.folder.iterdir()} <= {"wish.json", "state.json", "export.log"}


def test_an_export_that_is_cancelled_while_it_is_written_leaves_nothing(
    paths: Paths, tiny_model_folder: Path, tmp_path: Path
) -> None:
    source = sparse_model(tmp_path / "source", tiny_model_folder, 60)
    job = exports.create(paths, wish(paths, source, kind="full-model"))
    written: list[int] = []
    state = export_work.work(paths, job, None, while_it_writes(paths, lambda: exports.cancel(paths, job.id), written))
    assert written[0] > 0
    assert state.state == exports.read_state(job).state == "cancelled"
    assert [entry.name for entry in paths.exports.iterdir()] == [".jobs"]


@pytest.mark.filterwarnings("ignore")  # peft warns of embeddings that are saved whole
def test_states_that_are_merged_are_verified_against_their_adapter_which_then_goes(
    paths: Paths, checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the verbs' own functions, but in this process."""
    asked: list[str] = []

    def call(verb: str, request: Any, **rest: Any) -> Answer:
        asked.append(verb)
        if verb == "export":
            return Answer(value=engine_export.export(request).model_dump(mode="json"))
        assert verb == "compare" and (Path(request.path) / "adapter_model.safetensors").is_file()
        return Answer(value=compare.compare(request).model_dump(mode="json"))

    monkeypatch.setattr(export_work.verbs, "call", call)
    base = letters_base(tmp_path / "base")
    source = wish(
        paths, checkpoints / "2-3-lora", kind="zero-checkpoint", base=str(base), merge=True, trust_pickles=True
    )
    assert codes(exports.judge(paths, source.model_copy(update={"base": None}))) == ["model-missing"]
    job = exports.create(paths, source)
    state = export_work.work(paths, job, None)
    report = exports.read_report(job)
    assert report is not None and (state.state, state.problems, asked) == ("finished", (), ["export", "compare"])
    checks = {check.name: check.verdict for check in report.verification.checks}
    assert (report.kind, checks["merge"], checks["effect"]) == ("full-model", "pass", "pass")
    assert not job.adapter.exists()


def test_the_process_outlives_its_starter_and_one_that_died_is_lost(paths: Paths, tmp_path: Path) -> None:
    """A folder that is refused at once, by a real detached process; and a record whose process is gone."""
    source = tmp_path / "half"
    source.mkdir()
    (source / "adapter_config.json").write_text("{}")
    started = exports.start(paths, wish(paths, source), token="hf_secret")
    job = paths.export(started)
    until = time.monotonic() + 60
    while (state := exports.read_state(job)).state == "running" and time.monotonic() < until:
        time.sleep(0.1)
    assert (state.state, codes(state.problems)) == ("failed", ["model-unsupported"])
    everything = b"".join(file.read_bytes() for file in job.folder.rglob("*") if file.is_file())
    assert b"hf_secret" not in everything
    gone = ProcessMark(pid=2**22 - 1, started=1.0)
    dead = state.model_copy(update={"state": "running", "ended": None, "process": gone})
    job.adapter.mkdir()
    job.state.write_text(dead.model_copy(update={"host": "another"}).model_dump_json())
    assert exports.read_state(job).state == "lost" and job.adapter.exists(), "of another machine nobody knows"
    job.state.write_text(dead.model_dump_json())
    assert exports.read_state(job).state == "lost" and not job.adapter.exists()
    with pytest.raises(NotFound):
        exports.cancel(paths, "never-was")
