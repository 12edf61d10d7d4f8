"""What Gradio is given to draw: labels, ids, names of events, in both languages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ui.scripted import everything
from tests.ui.test_views import KEY
from tests.ui.test_web import served
from zeroboard.paths import RunPaths
from zeroboard.ui import form

PRIVATE = "private"

SKIPPED = re.compile(r"(?:__type__|update|props|[{}':, ])*")
"""What stands for a component that stays as it is."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunPaths]:
    return everything(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def server(made: dict[str, RunPaths]) -> Iterator[httpx.Client]:
    with served(made["running"].folder.parent.parent) as client:
        yield client


@pytest.fixture(scope="module", params=["en", "zh-CN"])
def config(server: httpx.Client, request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = server.get(f"/{request.param}/config").json()
    return found | {"asked": request.param}


def props(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {c["props"]["elem_id"]: c["props"] for c in config["components"] if c["props"].get("elem_id")}


def test_every_field_has_its_control_with_label_hint_and_key(config: dict[str, Any]) -> None:
    there = props(config)
    for widget in form.widgets():
        control = there[form.element_id(widget.key)]
        assert control["label"]
        if widget.key.startswith(form.MIXED):
            continue  # one hint for all further files stands above them
        assert len(control["info"]) > 10
        if widget.key != form.OFFLOAD_WHAT:
            assert f"`{widget.key}`" in control["info"]


def test_no_key_is_visible_instead_of_its_sentence(config: dict[str, Any]) -> None:
    for component in config["components"]:
        shown = component["props"]
        texts = [shown.get(name) for name in ("label", "info", "placeholder", "value")]
        texts += [label for label, _ in shown.get("choices") or []]
        for text in texts:
            if isinstance(text, str):
                words = re.sub(r"`[^`]*`|<[^>]*>", " ", text)
                assert not KEY.search(words), text


def test_the_chinese_page_speaks_chinese(config: dict[str, Any]) -> None:
    labels = [p["label"] for key, p in props(config).items() if key.startswith("f-")]
    chinese = [label for label in labels if re.search("[\u4e00-\u9fff]", label)]
    if config["asked"] == "en":
        assert chinese == []
    else:
        assert len(chinese) >= 0.9 * len(labels)


def test_ids_are_unique(config: dict[str, Any]) -> None:
    ids = [c["props"]["elem_id"] for c in config["components"] if c["props"].get("elem_id")]
    assert len(ids) == len(set(ids))


def test_every_event_is_private_and_has_a_name_of_its_own(config: dict[str, Any]) -> None:
    ours = [d for d in config["dependencies"] if d.get("api_name")]
    assert len(ours) > 15
    assert {d["api_visibility"] for d in ours if d["backend_fn"]} == {PRIVATE}
    names = [d["api_name"] for d in ours if d["backend_fn"]]
    assert len(names) == len(set(names))


def test_advanced_parts_are_closed_and_the_five_cards_are_in_order(config: dict[str, Any]) -> None:
    cards = [c["props"] for c in config["components"] if str(c["props"].get("elem_id", "")).startswith("card-")]
    assert [c["elem_id"] for c in cards] == [f"card-{name}" for name in form.CARDS]
    advanced = [c["props"] for c in config["components"] if "zb-advanced" in (c["props"].get("elem_classes") or [])]
    assert advanced
    assert not any(a["open"] for a in advanced)


def test_no_run_history_and_no_public_api(config: dict[str, Any], server: httpx.Client) -> None:
    assert config["run_history"] is False
    info = server.get(f"/{config['asked']}/gradio_api/info").json()
    assert info["named_endpoints"] == {}
    assert info["unnamed_endpoints"] == {}


def test_a_forged_value_is_a_sentence_and_not_a_trace(server: httpx.Client) -> None:
    """Presses Preview as a script would, with a method that is not among the choices and a path out of everything."""
    config = server.get("/en/config").json()
    ids = {c["id"]: c["props"].get("elem_id") for c in config["components"]}
    press = next(d for d in config["dependencies"] if d["api_name"] == "en_preview")
    values = {c["id"]: c["props"].get("value") for c in config["components"]}
    data = []
    for at in press["inputs"]:
        given = values[at]
        if ids[at] == "f-method-kind":
            given = "magic"
        if ids[at] == "f-data-path":
            given = "../../../../etc/passwd"
        data.append(given)
    told = call(server, "en", press["id"], data)
    assert "magic" in told
    assert "Traceback" not in told


def test_an_address_that_names_no_run_is_a_sentence(server: httpx.Client) -> None:
    config = server.get("/en/config").json()
    opens = next(d for d in config["dependencies"] if d["api_name"] == "en_open_run")
    told = call(server, "en", opens["id"], [], query="?run=no-such-run")
    assert "no-such-run" in told


def call(server: httpx.Client, lang: str, fn: int, data: list[Any], query: str = "") -> str:
    """What the page would be sent for an event, as text."""
    body = {"fn_index": fn, "data": data, "session_hash": "test", "event_data": None, "trigger_id": None}
    # escaped by hand: a client of our own would refuse half a surrogate pair before it is sent
    sent = json.dumps(body).encode()
    joined = server.post(
        f"/{lang}/gradio_api/queue/join{query}", content=sent, headers={"Content-Type": "application/json"}
    )
    assert joined.status_code == 200, joined.text
    with server.stream("GET", f"/{lang}/gradio_api/queue/data", params={"session_hash": "test"}) as lines:
        for line in lines.iter_lines():
            if "process_completed" in line:
                return line
    raise AssertionError("no answer")


def test_unused_pages_of_gradio_are_not_there(server: httpx.Client) -> None:
    for path in ("/en/gradio_api/runs", "/docs", "/openapi.json"):
        assert server.get(path).status_code in (403, 404)


def test_files_of_the_machine_are_not_served(server: httpx.Client, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    for path in (str(secret), "/etc/passwd"):
        assert server.get(f"/en/gradio_api/file={path}").status_code in (403, 404)


def event(config: dict[str, Any], name: str) -> int:
    return int(next(d["id"] for d in config["dependencies"] if d["api_name"] == name))


def test_a_second_look_at_a_run_that_did_not_change_sends_nothing(
    server: httpx.Client, made: dict[str, RunPaths]
) -> None:
    config = server.get("/en/config").json()
    opened = call(server, "en", event(config, "en_open_run"), [], query=f"?run={made['finished'].id}")
    assert made["finished"].id in opened and "polyline" in opened
    look = next(d for d in config["dependencies"] if d["api_name"] == "en_tick")
    told = call(server, "en", look["id"], [None] * len(look["inputs"]))
    quiet = json.loads(told.removeprefix("data: "))["output"]["data"]
    changed = [value for value in quiet if value is not None and not SKIPPED.fullmatch(str(value))]
    assert [value for value in changed if "zb-machine" not in str(value)] == []  # readings of the host may move


def test_half_a_surrogate_pair_is_answered(server: httpx.Client) -> None:
    config = server.get("/en/config").json()
    looks = next(d for d in config["dependencies"] if d["api_name"] == "en_look")
    values = {c["id"]: c["props"].get("value") for c in config["components"]}
    ids = {c["id"]: c["props"].get("elem_id") for c in config["components"]}
    data = ["\ud800" if ids[at] == "f-data-path" else values[at] for at in looks["inputs"]]
    assert "zb-plan" in call(server, "en", looks["id"], data)


def test_files_of_a_preview_are_downloaded_and_no_others(server: httpx.Client, made: dict[str, RunPaths]) -> None:
    run = made["planned"]
    got = server.get(f"/files/runs/{run.id}/plan/ds_z2_config.json")
    assert got.content == (run.folder / "ds_z2_config.json").read_bytes()
    assert "attachment" in got.headers["content-disposition"]
    for name in ("state.json", "..%2fspec.yaml", "logs"):
        assert server.get(f"/files/runs/{run.id}/plan/{name}").status_code == 404


def test_a_row_of_tabs_holds_tabs_alone(config: dict[str, Any]) -> None:
    # anything else among them (a state, say) takes a tab's place, and the labels slip
    kind = {component["id"]: component["type"] for component in config["components"]}

    def walk(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
        for child in node.get("children") or []:
            yield kind.get(node["id"], ""), kind[child["id"]]
            yield from walk(child)

    inside = [child for parent, child in walk(config["layout"]) if parent == "tabs"]
    assert len(inside) >= 7 and set(inside) == {"tabitem"}
