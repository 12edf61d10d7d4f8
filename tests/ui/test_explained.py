"""Preview, stages, difference, stops and machines: every piece has its sentence, every figure its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ui.scripted import failed, move, planned, running
from tests.ui.test_views import HOST, KEY, whole
from zeroboard.contract.events import PhaseEvent, SaveEvent
from zeroboard.contract.plan import Promise
from zeroboard.contract.problems import Problem
from zeroboard.contract.spec import Stage, fields
from zeroboard.files import append_line
from zeroboard.messages import LANGUAGES, Language
from zeroboard.paths import Paths
from zeroboard.runs.snapshot import Snapshot, SnapshotReader
from zeroboard.services import judging, prepare
from zeroboard.ui.views import data, difference, explain, live, plan, preview, runs, stages

MANY = ["zero.stage=3", "zero.offload=all", "train.precision=fp32", "devices.count=2"]


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("sets", [["zero.stage=1"], ["zero.stage=2", "zero.offload=optimizer"], MANY])
def test_every_field_of_every_file_is_explained(tmp_path: Path, sets: list[str], lang: Language) -> None:
    host = HOST.model_copy(update={"compiler": "/usr/bin/g++"})
    made = prepare.plan(Paths(tmp_path), prepare.load_spec("demo", sets), host=host)
    assert len(made.files) == 2
    for content in made.files.values():
        silent = [line.text for line in explain.lines(content, 2, lang) if ":" in line.text and not line.says]
        assert silent == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_fields_of_fp16_are_explained_too(lang: Language) -> None:
    for name in ("loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale", "auto_cast"):
        assert explain.field(f"fp16.{name}", lang)
    for facts in fields():
        assert explain.field(facts.key, lang)
    assert explain.field("no.such", lang) is None


def test_sizes_are_told_in_elements_and_never_in_bytes_of_another_width() -> None:
    for name in ("reduce_bucket_size", "allgather_bucket_size", "stage3_prefetch_bucket_size"):
        assert "lements (not bytes)" in (explain.field(f"zero_optimization.{name}", "en") or "")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_argument_and_variable_has_a_sentence_of_its_own(tmp_path: Path, lang: Language) -> None:
    made = prepare.plan(Paths(tmp_path), prepare.load_spec("demo"), host=HOST)
    told = explain.arguments(made.argv, lang)
    assert " ".join(piece for piece, _ in told) == " ".join(map(explain.quoted, made.argv))
    assert len({words for _, words in told}) == len(told)
    said = [explain.variable(name, lang) for name in made.env]
    assert len(set(said)) == len(said)
    assert explain.variable("OTHER", lang) not in said


def test_a_word_with_spaces_is_quoted_as_a_shell_reads_it() -> None:
    import shlex

    for word in ("/tmp/a b", "it's", "", "$HOME", "a;b"):
        assert shlex.split(explain.quoted(word)) == [word]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_difference_names_fields_and_warns_of_several_optimisations_at_a_time(lang: Language) -> None:
    before = prepare.load_spec("demo")
    one = prepare.load_spec("demo", ["zero.stage=3", "train.epochs=2", "name=other"])
    page = whole(difference.difference(before, one, "demo", lang))
    assert "zero.stage" in page and "train.epochs" in page and ">name<" not in page
    assert "zb-notice" not in page
    two = prepare.load_spec("demo", ["zero.stage=3", "train.precision=fp32"])
    assert "zb-notice warning" in whole(difference.difference(before, two, "demo", lang))
    assert "zb-scroll" not in whole(difference.difference(before, before, "demo", lang))
    assert "zb-scroll" not in whole(difference.difference(None, before, "", lang))


def test_batch_and_accumulation_are_one_optimisation() -> None:
    before = prepare.load_spec("demo")
    after = prepare.load_spec("demo", ["train.micro_batch=1", "train.accumulation=4"])
    assert difference.optimisations(difference.changes(before, after)) == ["train.micro_batch"]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_stages_are_drawn_to_one_scale_with_their_figures(lang: Language) -> None:
    mib = 1 << 20
    held: dict[Stage, Promise] = {
        "none": Promise(
            parameter_bytes=100 * mib, gradient_bytes=60 * mib, optimizer_bytes=40 * mib, offloaded_bytes=0
        ),
        "3": Promise(
            parameter_bytes=50 * mib, gradient_bytes=30 * mib, optimizer_bytes=20 * mib, offloaded_bytes=70 * mib
        ),
    }
    page = whole(stages.stages(held, "3", ranks=2, share=None, lang=lang) or "")
    widths = [float(width) for width in re.findall(r'width="([\d.]+)%" height="14" class', page)]
    assert widths == [50.0, 30.0, 20.0, 25.0, 15.0, 10.0]
    assert page.count(" away") == 2
    for figure in ("200.0 MiB", "100.0 MiB", "70.0 MiB"):
        assert figure in page
    assert page.count('class="chosen"') == 1
    assert stages.stages({}, "none", ranks=2, share=None, lang=lang) is None


def shown_with_stop(tmp_path: Path, state: str, stop: str, saved: bool = False, **rest: object) -> Snapshot:
    run = planned(Paths(tmp_path))
    running(run, 12)
    now = move(run, state, stop=stop, **rest)  # type: ignore[arg-type]
    if saved:
        save = SaveEvent(seq=950, time=now.changed + 1, rank=0, step=12, path="model", done=False)
        append_line(run.events, save.model_dump_json())
    return SnapshotReader(run).read()


@pytest.mark.parametrize(
    ("state", "stop", "saved", "station"),
    [
        ("stopping", "save", False, "asked"),
        ("stopping", "save", True, "saving"),
        ("stopping", "discard", False, "leaving"),
        ("verifying", "save", True, "verifying"),
    ],
)
def test_a_stop_is_shown_by_its_stages(tmp_path: Path, state: str, stop: str, saved: bool, station: str) -> None:
    shown = shown_with_stop(tmp_path, state, stop, saved)
    assert live.stop_station(shown) == station
    page = whole(live.progress(shown, "en"))
    current = re.search(r'aria-current="step">([^<]+)<', page)
    assert current is not None and current[1].lower().startswith(station)


def test_a_forced_stop_says_so(tmp_path: Path) -> None:
    problem = Problem(code="killed-by-signal", says=live.FORCED, params={"step": 12})
    shown = shown_with_stop(tmp_path, "failed", "save", problem=problem)
    page = whole(live.progress(shown, "en"))
    assert "Ended by force" in page and 'class="bad"' in page


def test_a_phase_tells_how_long_it_will_take_once_it_can_be_known() -> None:
    begun = PhaseEvent(seq=1, time=100.0, rank=-1, phase="tokenise", done=0.02)
    assert live.phase_left(begun, 100.0) is None
    half = begun.model_copy(update={"time": 130.0, "done": 0.5})
    assert live.phase_left(half, 100.0) == 30.0
    assert live.phase_left(half.model_copy(update={"done": None}), 100.0) is None


def test_a_launch_promises_no_time() -> None:
    event = PhaseEvent(seq=1, time=130.0, rank=0, phase="launch", done=0.7)
    assert live.phase_left(event, 100.0) is None


@pytest.mark.parametrize("lang", LANGUAGES)
def test_problems_of_the_data_are_told_with_their_rows(tmp_path: Path, lang: Language) -> None:
    file = tmp_path / "rows.jsonl"
    good = '{"instruction": "Hi", "output": "Hello"}\n'
    file.write_text(good + "not json\n" + good + '{"instruction": "Hi", "output": ""}\n')
    page = whole(data.report_card(judging.judge_data(str(file)), lang))
    text = re.sub(r"<[^>]*>", " ", page)
    assert re.search(r"\b2\b", text) and re.search(r"\b4\b", text)
    assert KEY.findall(text) == []


def test_the_preview_says_which_buttons_wait_and_why(tmp_path: Path) -> None:
    bad = prepare.plan(Paths(tmp_path), prepare.load_spec("demo", ["model.path=/no"]), host=HOST)
    assert "1" in plan.why_not(bad.problems, "en")
    assert plan.why_not((), "en") == ""


def test_runs_show_their_verdict_and_a_broken_folder_does_not_stop_the_list(tmp_path: Path) -> None:
    from zeroboard.runs.registry import list_runs

    paths = Paths(tmp_path)
    run = planned(paths)
    failed(run)
    broken = paths.runs / "20261101-broken"
    broken.mkdir()
    (broken / "state.json").write_text("{")
    for lang in LANGUAGES:
        page = whole(runs.runs(list_runs(paths), "", lang, {run.id: "pass"}))
        assert "20261101-broken" in page and "zb-badge pass" in page
        assert page.count("<tr") == 2


def test_a_preview_hands_out_its_files_and_a_draft_does_not(tmp_path: Path) -> None:
    made = prepare.plan(Paths(tmp_path), prepare.load_spec("demo"), host=HOST)
    assert "/files/runs/" not in preview.page(made, "en", "planned")
    written = made.model_copy(update={"run_id": "some-run"})
    assert "/base/files/runs/some-run/plan/spec.yaml" in preview.page(written, "en", "planned", base="/base")
