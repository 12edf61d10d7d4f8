"""Login: one name and password for everybody who may use the page, a signed cookie, and a limit on attempts.

The key that signs lives as long as the process: after a restart everybody logs in again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup
from starlette.requests import HTTPConnection

from zeroboard.errors import UsageError
from zeroboard.messages import Language, say
from zeroboard.ui.guard import App, Receive, Scope, Send
from zeroboard.ui.views.markup import tag

COOKIE = "zeroboard-session"
LASTS = 7 * 24 * 3600
"""Seconds that a login holds."""
ATTEMPTS, WINDOW = 8, 300.0
"""Most failed attempts of one address in so many seconds."""
BODY = 4096
"""Most bytes of a login form."""

OPEN = ("/login", "/health", "/logo.svg", "/theme.css", "/manifest.json", "/favicon.ico")
"""What is served without a login."""


class Login:
    """Knows the password (as a hash) and who has shown it."""

    def __init__(self, auth: str) -> None:
        """`auth` is `USER:PASS`; raises `UsageError` for anything else."""
        user, colon, password = auth.partition(":")
        if not (user and colon and password):
            raise UsageError("ui.serve.bad-auth")
        self._salt = secrets.token_bytes(16)
        self._key = secrets.token_bytes(32)
        self._known = self._digest(user, password)
        self._failed: dict[str, deque[float]] = {}

    def _digest(self, user: str, password: str) -> bytes:
        return hashlib.scrypt(f"{user}\0{password}".encode(), salt=self._salt, n=2**13, r=8, p=1)

    def blocked(self, address: str) -> bool:
        """Too many failures from there lately."""
        tries = self._failed.get(address, deque())
        while tries and tries[0] < time.monotonic() - WINDOW:
            tries.popleft()
        return len(tries) >= ATTEMPTS

    def right(self, user: str, password: str, address: str) -> bool:
        """Compares in constant time; counts a failure."""
        if hmac.compare_digest(self._digest(user, password), self._known):
            self._failed.pop(address, None)
            return True
        if len(self._failed) > 10_000:  # somebody plays with addresses: forget the oldest
            self._failed.pop(next(iter(self._failed)))
        self._failed.setdefault(address, deque()).append(time.monotonic())
        return False

    def cookie(self) -> str:
        """A signed promise with its end."""
        until = str(int(time.time()) + LASTS)
        return f"{until}.{self._sign(until)}"

    def valid(self, cookie: str | None) -> bool:
        until, _, signature = (cookie or "").partition(".")
        if not until.isdigit() or not hmac.compare_digest(signature.encode(), self._sign(until).encode()):
            return False
        return int(until) > time.time()

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


class Gate:
    """Before the pages: without a valid cookie, a page leads to the login and anything else is refused."""

    def __init__(self, app: App, *, login: Login, base: str) -> None:
        self.app, self.login, self.base = app, login, base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        asked = HTTPConnection(scope)
        if scope["path"].removeprefix(self.base) in OPEN or self.login.valid(asked.cookies.get(COOKIE)):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["method"] == "GET" and "text/html" in asked.headers.get("accept", ""):
            await RedirectResponse(f"{self.base}/login", status_code=303)(scope, receive, send)
        else:
            await Response(status_code=401)(scope, receive, send)


def routes(login: Login, base: str, language: Callable[[Request], Language]) -> APIRouter:
    """The login page and its form."""
    router = APIRouter()

    @router.get("/login")
    def page(request: Request) -> HTMLResponse:
        return HTMLResponse(_page(language(request), base, None))

    @router.post("/login")
    async def enter(request: Request) -> Response:
        lang = language(request)
        address = request.client.host if request.client else ""
        if login.blocked(address):
            return HTMLResponse(_page(lang, base, "ui.login.blocked"), status_code=429)
        if int(request.headers.get("content-length") or BODY + 1) > BODY:
            return Response(status_code=413)
        from_form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        if not login.right(from_form.get("user", ""), from_form.get("password", ""), address):
            return HTMLResponse(_page(lang, base, "ui.login.wrong"), status_code=401)
        answer = RedirectResponse(f"{base}/", status_code=303)
        secure = request.url.scheme == "https"
        answer.set_cookie(
            COOKIE, login.cookie(), max_age=LASTS, httponly=True, samesite="lax", secure=secure, path=base or "/"
        )
        return answer

    return router


def _page(lang: Language, base: str, problem: str | None) -> str:
    form = tag(
        "form",
        tag("h1", "ZeroBoard"),
        tag(
            "label",
            say("ui.login.user", lang),
            tag("input", name="user", autocomplete="username", required=True, autofocus=True),
        ),
        tag(
            "label",
            say("ui.login.password", lang),
            tag("input", name="password", type="password", autocomplete="current-password", required=True),
        ),
        tag("p", say(problem, lang), role="alert", class_="zb-notice error") if problem else None,
        tag("button", say("ui.login.enter", lang), type="submit"),
        method="post",
        action=f"{base}/login",
        class_="zb-login",
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "ZeroBoard"),
        tag("link", rel="stylesheet", href=f"{base}/theme.css"),
    )
    return str(Markup("<!doctype html>") + tag("html", head, tag("body", form, class_="zb-login-page"), lang=lang))
