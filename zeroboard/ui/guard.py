"""Who may speak to the page: the Host and Origin of every request, before anything else sees it.

A page on another site can make a browser send requests to 127.0.0.1, by a name that it lets point there (DNS
rebinding), or directly (a forged form). Covered: both, for HTTP and web sockets. Not covered: a process on this
machine, which could read the cache anyway.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ws: wss:; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""Nothing is fetched from elsewhere and nobody frames the page. Gradio's own frontend needs inline scripts and eval."""

HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
)


class Guard:
    """Refuses a request whose Host is not ours, or that comes from a page of another origin."""

    def __init__(self, app: App, *, allow: Iterable[str] = ()) -> None:
        self.app = app
        self.allow = LOOPBACK | {name.lower() for name in allow}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = list(scope["headers"])
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        if len(hosts) != 1 or host_name(hosts[0]) not in self.allow:
            await _refuse(scope, send, 421, "This Host is not served here; see --allow-host.")
        elif any(not self._same(origin, hosts[0]) for origin in origins):
            await _refuse(scope, send, 403, "Requests from pages of another origin are refused.")
        else:
            await self.app(scope, receive, _with_headers(send))

    def _same(self, origin: str, host: str) -> bool:
        """The page's own origin; behind a proxy that rewrites Host, a name that was allowed."""
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return False
        if parts.netloc.lower() == host.lower():
            return True
        name = host_name(parts.netloc)
        return name in self.allow and name not in LOOPBACK


def host_name(netloc: str) -> str:
    """The name in `name:port` or `[::1]:port`, lower case; "" for what is no host."""
    try:
        return (urlsplit(f"//{netloc}").hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _with_headers(send: Send) -> Send:
    async def sender(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            ours = {name for name, _ in HEADERS}
            kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in ours]
            message["headers"] = [*kept, *HEADERS]
        await send(message)

    return sender


async def _refuse(scope: Scope, send: Send, status: int, words: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": words})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": words.encode() + b"\n"})
