"""The web app: who may speak to it, where it leads, what it hands out."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from tests.ui.scripted import everything
from zeroboard.errors import UsageError
from zeroboard.paths import RunPaths
from zeroboard.settings import Settings
from zeroboard.ui import serve
from zeroboard.ui.guard import Guard, host_name, is_loopback
from zeroboard.ui.login import ATTEMPTS, Login
from zeroboard.ui.web import choose_language


@contextlib.contextmanager
def served(cache: Path, auth: str | None = None, extra: str = "", before: str = "") -> Iterator[httpx.Client]:
    """The page in a process of its own on a free port, as `zeroboard ui` opens it.

    Not in this process: Gradio leaves event loops open, which here would be warnings, and warnings are errors.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = f"""
from pathlib import Path
from zeroboard.settings import Settings
from zeroboard.ui import serve
{before}
serve(Settings(cache=Path({str(cache)!r})), port={port}, auth={auth!r}, {extra})
"""
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                _wait(client, process)
                yield client
        finally:
            process.terminate()


def _wait(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 90
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            assert client.get("/health").json()["status"] == "ok"
            return
        time.sleep(0.2)
    raise AssertionError("the page did not come up")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunPaths]:
    return everything(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def server(runs: dict[str, RunPaths]) -> Iterator[httpx.Client]:
    with served(runs["running"].folder.parent.parent) as found:
        yield found


@pytest.fixture
def client(server: httpx.Client) -> httpx.Client:
    server.cookies.clear()
    return server


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "192.168.1.9"]
)
def test_a_forged_host_is_refused(client: httpx.Client, host: str) -> None:
    assert client.get("/health", headers={"host": host}).status_code == 421
    assert client.get("/en/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:99", "127.0.0.1", "[::1]:7860", "LOCALHOST:7860"])
def test_loopback_names_are_valid_on_any_port(client: httpx.Client, host: str) -> None:
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "http://127.0.0.1:1", "file://"]
)
def test_a_page_of_another_origin_is_refused(client: httpx.Client, origin: str) -> None:
    answer = client.post("/en/gradio_api/queue/join", headers={"origin": origin}, json={})
    assert answer.status_code == 403


def test_the_pages_own_origin_is_let_in(client: httpx.Client) -> None:
    assert client.get("/health", headers={"origin": str(client.base_url).rstrip("/")}).status_code == 200


def test_an_allowed_name_is_served_also_behind_a_proxy_that_rewrites_host() -> None:
    guard = Guard(FastAPI(), allow=["Board.Example"])  # type: ignore[arg-type]
    assert "board.example" in guard.allow
    assert guard._same("https://board.example", "127.0.0.1:7860")
    assert not guard._same("https://other.example", "127.0.0.1:7860")
    assert not guard._same("http://localhost:1", "127.0.0.1:7860")


def test_hosts_are_read_as_a_browser_reads_them() -> None:
    assert host_name("LocalHost:7860") == "localhost"
    assert host_name("[::1]:80") == "::1"
    assert host_name("[::1") == ""
    assert is_loopback("127.8.0.1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("board.example")


def test_the_front_leads_to_the_language_and_keeps_the_run(client: httpx.Client) -> None:
    answer = client.get("/?run=abc", headers={"accept-language": "zh-CN,zh;q=0.9"}, follow_redirects=False)
    assert answer.headers["location"] == "/zh-CN/?run=abc"
    switched = client.get("/language/en?run=abc", follow_redirects=False)
    assert switched.headers["location"] == "/en/?run=abc"
    again = client.get("/", headers={"accept-language": "zh"}, follow_redirects=False)
    assert again.headers["location"] == "/en/"
    assert client.get("/language/xx", follow_redirects=False).status_code == 404


def test_the_language_switch_leads_nowhere_else(client: httpx.Client) -> None:
    answer = client.get("/language/en", params={"run": "x\r\nset-cookie: a=b"}, follow_redirects=False)
    assert answer.status_code == 404


@pytest.mark.parametrize(
    ("fixed", "cookie", "accepted", "chosen"),
    [
        ("en", "zh-CN", "zh", "en"),
        (None, "zh-CN", "en", "zh-CN"),
        (None, None, "fr, zh-TW;q=0.8, en;q=0.5", "zh-CN"),
        (None, "rubbish", "", "en"),
    ],
)
def test_flag_then_cookie_then_browser(fixed: str | None, cookie: str | None, accepted: str, chosen: str) -> None:
    assert choose_language(fixed, cookie, accepted) == chosen  # type: ignore[arg-type]


def test_both_pages_are_there_and_fetch_nothing_from_elsewhere(client: httpx.Client) -> None:
    for path in ("/en/", "/zh-CN/"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_a_log_is_downloaded_whole(client: httpx.Client, runs: dict[str, RunPaths]) -> None:
    run = runs["running"]
    answer = client.get(f"/files/runs/{run.id}/logs/rank 0")
    assert answer.content == run.rank_log(0).read_bytes()
    assert "attachment" in answer.headers["content-disposition"]


@pytest.mark.parametrize(
    "path",
    [
        "/files/runs/{run}/logs/..%2f..%2fspec.yaml",
        "/files/runs/..%2f{run}/logs/rank 0",
        "/files/runs/{run}/logs/spec",
        "/files/runs/none/report",
    ],
)
def test_downloads_stay_in_their_folders(client: httpx.Client, runs: dict[str, RunPaths], path: str) -> None:
    assert client.get(path.format(run=runs["running"].id)).status_code == 404


def test_a_log_that_is_a_link_out_of_its_folder_is_not_followed(
    client: httpx.Client, runs: dict[str, RunPaths], tmp_path: Path
) -> None:
    secret = tmp_path / "secret.log"
    secret.write_text("secret")
    link = runs["finished"].logs / "launcher.log"
    link.symlink_to(secret)
    assert client.get(f"/files/runs/{runs['finished'].id}/logs/launcher").status_code == 404


def test_a_report_is_downloaded(client: httpx.Client, runs: dict[str, RunPaths]) -> None:
    assert client.get(f"/files/runs/{runs['finished'].id}/report").json()["kind"] == "lora-adapter"
    assert client.get(f"/files/runs/{runs['running'].id}/report").status_code == 404


def test_the_report_of_a_checkpoint_is_downloaded_by_its_step(client: httpx.Client, runs: dict[str, RunPaths]) -> None:
    run = runs["finished"]
    checkpoint = run.checkpoints / "checkpoint-40"
    checkpoint.mkdir(parents=True)
    assert client.get(f"/files/runs/{run.id}/report", params={"checkpoint": 40}).status_code == 404
    (run.reports / "verify-checkpoint-40.json").write_bytes(run.verify_report.read_bytes())
    answer = client.get(f"/files/runs/{run.id}/report", params={"checkpoint": 40})
    assert answer.json()["verdict"] == "warn"
    assert "checkpoint-40" in answer.headers["content-disposition"]
    assert client.get(f"/files/runs/{run.id}/report?checkpoint=../x").status_code == 422


def test_what_is_not_there_is_told_in_the_language_of_the_browser(client: httpx.Client) -> None:
    assert client.get("/nowhere").text == "There is no such page here.\n"
    assert "没有" in client.get("/files/runs/none/report", headers={"accept-language": "zh-CN"}).text


def test_what_nobody_expected_is_a_sentence_with_an_id_and_a_traceback_in_the_log(runs: dict[str, RunPaths]) -> None:
    run = runs["failed"]
    run.model.mkdir()
    before = "from zeroboard.services import results; results.read_report = lambda *_: 1 / 0"
    with served(run.folder.parent.parent, before=before) as client:
        answer = client.get(f"/files/runs/{run.id}/report")
    assert answer.status_code == 500
    found = re.search(r"id ([0-9a-f]{8})", answer.text)
    assert found and "Traceback" not in answer.text
    log = (run.folder.parent.parent / "logs" / "dashboard.log").read_text()
    assert found[1] in log and "Traceback" in log and "ZeroDivisionError" in log


def test_a_logout_ends_the_cookie_wherever_it_is_kept(tmp_path: Path) -> None:
    with served(tmp_path, auth="ann:secret") as client:
        client.post("/login", data={"user": "ann", "password": "secret"}, follow_redirects=False)
        kept = client.cookies["zeroboard-session"]
        assert client.get("/en/config").status_code == 200
        left = client.post("/logout", follow_redirects=False)
        assert left.headers["location"] == "/login"
        assert "zeroboard-session" not in client.cookies
        assert client.get("/en/config", headers={"cookie": f"zeroboard-session={kept}"}).status_code == 401
        page = client.get("/login", headers={"accept-language": "zh-CN"}).text
        assert 'lang="zh-CN"' in page and "/language/en" in page
        assert client.post("/login", content=b"x" * 5000).status_code == 413
        assert client.post("/login", content=iter([b"user=ann"])).status_code == 413  # no length told


def test_a_cookie_is_worth_nothing_once_it_is_changed() -> None:
    login = Login("ann:secret")
    cookie = login.cookie()
    assert login.valid(cookie) and login.cookie() != cookie
    until, number, signature = cookie.split(".")
    for forged in (
        f"{int(until) + 1}.{number}.{signature}",
        f"{until}.0{number}.{signature}",
        cookie[:-1],
        "..",
        "",
        "é",
    ):
        assert not login.valid(forged)
    assert not Login("ann:secret").valid(cookie)  # another process, another key


def test_without_a_login_nothing_but_the_login_is_served(tmp_path: Path) -> None:
    with served(tmp_path, auth="ann:secret") as client:
        assert (
            client.get("/en/", headers={"accept": "text/html"}, follow_redirects=False).headers["location"] == "/login"
        )
        assert client.get("/en/config").status_code == 401
        assert client.get("/health").status_code == 200
        assert client.post("/login", data={"user": "ann", "password": "wrong"}).status_code == 401
        entered = client.post("/login", data={"user": "ann", "password": "secret"}, follow_redirects=False)
        assert entered.status_code == 303
        assert "httponly" in entered.headers["set-cookie"].lower()
        assert client.get("/en/config").status_code == 200
        client.cookies.clear()
        assert client.get("/en/config", headers={"cookie": "zeroboard-session=99999999999.forged"}).status_code == 401


def test_attempts_are_limited() -> None:
    login = Login("ann:secret")
    for _ in range(ATTEMPTS):
        assert not login.blocked("10.0.0.1")
        assert not login.right("ann", "guess", "10.0.0.1")
    assert login.blocked("10.0.0.1")
    assert not login.blocked("10.0.0.2")


@pytest.mark.parametrize("auth", ["", "ann", "ann:", ":secret"])
def test_a_login_without_name_or_password_is_refused(auth: str) -> None:
    with pytest.raises(UsageError, match="bad-auth"):
        Login(auth)


def test_another_address_than_loopback_needs_a_login(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs-auth"):
        serve(Settings(cache=tmp_path), host="0.0.0.0")


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="port-in-use"):
            serve(Settings(cache=tmp_path), port=taken.getsockname()[1])


def test_the_page_imports_no_torch() -> None:
    heavy = ("torch", "transformers", "deepspeed")
    code = f"import sys, zeroboard.ui; sys.exit([m for m in {heavy} if m in sys.modules] or 0)"
    done = subprocess.run(
        [shutil.which(sys.executable) or sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
