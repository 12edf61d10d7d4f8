"""Opens the dashboard: refuses what would be unsafe, says where it is, and serves until it is interrupted."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence

import uvicorn

from zeroboard.errors import UsageError
from zeroboard.messages import Language, say
from zeroboard.services import runs
from zeroboard.settings import Settings
from zeroboard.ui.guard import is_loopback
from zeroboard.ui.web import make_app
from zeroboard.ui.wiring import open_log


def serve(
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = 7860,
    lang: Language | None = None,
    allow_hosts: Sequence[str] = (),
    root_path: str = "",
    auth: str | None = None,
) -> None:
    """Serves until interrupted. `auth` (`USER:PASS`) goes before the settings' own.

    Raises `UsageError`: an address that others reach, without a login; a port that is taken; a malformed `auth`.
    """
    auth = auth or settings.auth
    if auth is None and not is_loopback(host):
        raise UsageError("ui.serve.needs-auth", host=host)
    listener = _listen(host, port)
    try:
        open_log(settings.paths)
        allowed = [*allow_hosts, host] if host not in ("0.0.0.0", "::") else list(allow_hosts)
        app = make_app(settings.paths, lang=lang, allow_hosts=allowed, root_path=root_path, auth=auth)
        runs.adopt_orphans(settings.paths)
        shown = f"[{host}]" if ":" in host else host
        print(say("ui.serve.at", lang or "en", url=f"http://{shown}:{port}{root_path}/"), file=sys.stderr, flush=True)  # noqa: T201
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=3, server_header=False
        )
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            app.state.shared.chats.close_all()
    finally:
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    """The bound socket: taken first, so that a port that is in use is told in a moment, before anything is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UsageError("ui.serve.port-in-use", host=host, port=port, why=error.strerror or str(error)) from error
    listener.listen(128)
    return listener
