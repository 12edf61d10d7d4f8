"""Login: one name and password for everybody who may use the page, a signed cookie, and a limit on attempts.

The key that signs lives as long as the process: after a restart everybody logs in again.

Covered: guessing (each address has few attempts; behind a proxy on this machine the address is the one that it
forwards), a cookie that was made up, changed, is too old, or was logged out. Not covered: listening on the wire; that
takes https, which a proxy gives.
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
from zeroboard.messages import LANGUAGES, Language, say
from zeroboard.paths import RUN_ID
from zeroboard.ui.guard import App, Receive, Scope, Send
from zeroboard.ui.theme import logo
from zeroboard.ui.views.header import languages
from zeroboard.ui.views.markup import tag

COOKIE = "zeroboard-session"
LASTS = 7 * 24 * 3600
"""Seconds that a login holds."""
ATTEMPTS, WINDOW = 8, 300.0
"""Most failed attempts of one address in so many seconds."""
BODY = 4096
"""Most bytes of a login form."""

DARK = 'if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.classList.add("dark")'
"""The page of Gradio does the same by itself."""

OPEN = frozenset(
    {"/login", "/health", "/logo.svg", "/theme.css", "/manifest.json", "/favicon.ico"}
    | {f"/language/{language}" for language in LANGUAGES}
)
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
        self._ended: dict[str, int] = {}
        """Logged-out cookies' own numbers, with the time until which they would have been valid."""

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
        """A signed promise with its end and a number of its own."""
        promise = f"{int(time.time()) + LASTS}.{secrets.token_hex(8)}"
        return f"{promise}.{self._sign(promise)}"

    def valid(self, cookie: str | None) -> bool:
        promise, _, signature = (cookie or "").rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(promise).encode()):
            return False
        until, _, number = promise.partition(".")  # ours, as the signature says
        return int(until) > time.time() and number not in self._ended

    def end(self, cookie: str | None) -> None:
        """Makes a cookie worthless, wherever else it is kept."""
        if cookie is not None and self.valid(cookie):
            until, number, _ = cookie.split(".")
            now = time.time()
            self._ended = {n: u for n, u in self._ended.items() if u > now} | {number: int(until)}

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
            login = f"{self.base}/login{_query(asked)}"
            await RedirectResponse(login, status_code=303)(scope, receive, send)
        else:
            await Response(status_code=401)(scope, receive, send)


def routes(login: Login, base: str, language: Callable[[Request], Language]) -> APIRouter:
    """The login page, its form, and the way out."""
    router = APIRouter()

    @router.post("/logout")
    def leave(request: Request) -> Response:
        login.end(request.cookies.get(COOKIE))
        answer = RedirectResponse(f"{base}/login", status_code=303)
        answer.delete_cookie(COOKIE, path=base or "/")
        return answer

    @router.get("/login")
    def page(request: Request) -> HTMLResponse:
        return HTMLResponse(_page(language(request), base, _query(request), None))

    @router.post("/login")
    async def enter(request: Request) -> Response:
        lang, query = language(request), _query(request)
        address = request.client.host if request.client else ""
        if login.blocked(address):
            return HTMLResponse(_page(lang, base, query, "ui.login.blocked"), status_code=429)
        length = request.headers.get("content-length", "")
        if not length.isascii() or not length.isdigit() or int(length) > BODY:
            return Response(status_code=413)
        from_form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        if not login.right(from_form.get("user", ""), from_form.get("password", ""), address):
            return HTMLResponse(_page(lang, base, query, "ui.login.wrong"), status_code=401)
        answer = RedirectResponse(f"{base}/{query}", status_code=303)
        secure = request.url.scheme == "https"
        answer.set_cookie(
            COOKIE, login.cookie(), max_age=LASTS, httponly=True, samesite="lax", secure=secure, path=base or "/"
        )
        return answer

    return router


def _query(asked: HTTPConnection) -> str:
    """The run that was asked for, kept over the login; only what can be a run's id, so that it leads nowhere else."""
    run = asked.query_params.get("run", "")
    return f"?run={run}" if RUN_ID.fullmatch(run) else ""


def _page(lang: Language, base: str, query: str, problem: str | None) -> str:
    form = tag(
        "form",
        tag("div", Markup(logo()), tag("h1", "ZeroBoard"), class_="zb-login-brand"),
        tag("p", say(problem, lang), role="alert", class_="zb-notice error") if problem else None,
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
        tag("button", say("ui.login.enter", lang), type="submit"),
        languages("", lang, base),
        method="post",
        action=f"{base}/login{query}",
        class_="zb-login",
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "ZeroBoard"),
        tag("link", rel="icon", href=f"{base}/logo.svg"),
        tag("link", rel="stylesheet", href=f"{base}/theme.css"),
        tag("script", Markup(DARK)),
    )
    return str(Markup("<!doctype html>") + tag("html", head, tag("body", form, class_="zb-login-page"), lang=lang))
