"""Behind nginx under a path of its own, with the configuration that `docs/proxy.md` gives."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.ui.test_page import call
from tests.ui.test_web import served

ROOT = Path(__file__).resolve().parents[2]
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
NO_NGINX = "No nginx here, so the proxy was not tried: install the Debian package nginx-light."

pytestmark = pytest.mark.skipif(NGINX is None, reason=NO_NGINX)

AROUND = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    server_name board.example;
{location}
  }}
}}
"""


def snippet(dashboard: str) -> str:
    """The location block of the documentation, with the address of the dashboard put in."""
    text = (ROOT / "docs" / "proxy.md").read_text(encoding="utf-8")
    found = re.search(r"^    location /zb/ \{.*?^    \}", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    assert "127.0.0.1:7860" in found[0]
    return found[0].replace("127.0.0.1:7860", dashboard)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A browser's way through nginx to a dashboard with a login."""
    folder = tmp_path_factory.mktemp("nginx")
    extra = "root_path='/zb', allow_hosts=('board.example',)"
    with served(folder / "cache", auth="ann:secret", extra=extra) as direct:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        address = f"{direct.base_url.host}:{direct.base_url.port}"
        config = folder / "nginx.conf"
        config.write_text(AROUND.format(folder=folder, port=port, location=snippet(address)))
        assert NGINX is not None
        with subprocess.Popen([NGINX, "-e", str(folder / "error.log"), "-c", str(config)]) as process:
            try:
                headers = {"host": "board.example"}
                with httpx.Client(base_url=f"http://127.0.0.1:{port}/zb", headers=headers, timeout=30) as client:
                    _wait(client, process)
                    yield client
            finally:
                process.terminate()


def _wait(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("nginx did not answer")


def test_login_pages_and_events_work_under_the_prefix(proxy: httpx.Client) -> None:
    front = proxy.get("/en/", headers={"accept": "text/html"}, follow_redirects=False)
    assert front.headers["location"] == "/zb/login"
    assert 'action="/zb/login"' in proxy.get("/login").text
    origin = {"origin": "http://board.example"}
    entered = proxy.post("/login", data={"user": "ann", "password": "secret"}, headers=origin, follow_redirects=False)
    assert entered.status_code == 303
    assert "path=/zb" in entered.headers["set-cookie"].lower()
    assert proxy.get("/", follow_redirects=False).headers["location"] == "/zb/en/"

    page = proxy.get("/en/")
    assert page.status_code == 200
    config = proxy.get("/en/config").json()
    assert config["root"].endswith("/zb/en")
    opens = next(d for d in config["dependencies"] if d["api_name"] == "en_open_run")
    # the queue's stream of server-sent events comes through, and is not held back until its end
    assert "no-such-run" in call(proxy, "en", opens["id"], [], query="?run=no-such-run")
    for asset in re.findall(r'(?:src|href)="(/zb/[^"]+|\./[^"]+)"', page.text)[:4]:
        url = asset.removeprefix("/zb") if asset.startswith("/zb") else f"/en/{asset[2:]}"
        assert proxy.get(url).status_code == 200, asset


def test_another_name_is_refused_also_behind_the_proxy(proxy: httpx.Client) -> None:
    assert proxy.get("/health", headers={"host": "evil.example"}).status_code == 421
    forged = proxy.post("/login", data={"user": "a", "password": "b"}, headers={"origin": "http://evil.example"})
    assert forged.status_code == 403
