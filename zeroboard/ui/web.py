"""The web app: guard, login, redirects by language, downloads from confined routes, and the two pages."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import gradio as gr
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from zeroboard import __version__
from zeroboard.errors import NotFound, ZeroBoardError
from zeroboard.messages import LANGUAGES, Language, has, say
from zeroboard.paths import Paths, confine
from zeroboard.services import exports, logs, report_html, results, runs, uploads
from zeroboard.ui import dashboard, login
from zeroboard.ui.guard import App, Guard, Receive, Scope, Send
from zeroboard.ui.shared import Shared
from zeroboard.ui.theme import LOGO, STYLESHEET, head, theme
from zeroboard.ui.wiring import log_unexpected

LANGUAGE_COOKIE = "zeroboard-language"
UPLOAD = uploads.LARGEST
"""Most bytes that a browser may send as a file; what a file may hold is judged where it is used."""


def make_app(
    paths: Paths,
    *,
    lang: Language | None = None,
    allow_hosts: Sequence[str] = (),
    root_path: str = "",
    auth: str | None = None,
) -> FastAPI:
    """The whole app. `lang` decides where `/` leads; None: the cookie, then what the browser asks for."""
    base = root_path.rstrip("/")
    shared = Shared(paths, login=auth is not None)
    app = FastAPI(title="ZeroBoard", docs_url=None, redoc_url=None, openapi_url=None, root_path=base)
    app.state.shared = shared

    def language(request: Request) -> Language:
        return choose_language(lang, request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", ""))

    @app.get("/")
    def front(request: Request) -> Response:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"{base}/{language(request)}/{query}", status_code=307)

    @app.get("/language/{wanted}")
    def switch(wanted: str, run: str = "") -> Response:
        if wanted not in LANGUAGES:
            return Response(status_code=404)
        query = f"?run={paths.run(run).id}" if run else ""  # a run's id is checked, so it cannot be another address
        answer = RedirectResponse(f"{base}/{wanted}/{query}", status_code=303)
        answer.set_cookie(LANGUAGE_COOKIE, wanted, max_age=365 * 24 * 3600, samesite="lax", path=base or "/")
        return answer

    @app.get("/health")
    def health() -> JSONResponse:
        return JSONResponse({"status": "ok", "version": __version__})

    @app.get("/favicon.ico")
    @app.get("/logo.svg")
    def icon() -> FileResponse:
        return FileResponse(LOGO, media_type="image/svg+xml")

    @app.get("/manifest.json")
    def manifest() -> JSONResponse:
        return JSONResponse({"name": "ZeroBoard", "icons": [{"src": f"{base}/logo.svg", "sizes": "any"}]})

    @app.get("/theme.css")
    def style() -> FileResponse:
        return FileResponse(STYLESHEET, media_type="text/css")

    @app.get("/files/runs/{run_id}/plan/{name}")
    def plan_file(run_id: str, name: str) -> FileResponse:
        file = confine(runs.plan_file(paths, run_id, name), [paths.run(run_id).folder])
        return FileResponse(file, media_type="text/plain", filename=file.name)

    @app.get("/files/runs/{run_id}/logs/{name}")
    def log_file(run_id: str, name: str) -> FileResponse:
        file = confine(logs.path(paths, run_id, name), [paths.run(run_id).logs])
        return FileResponse(file, media_type="text/plain", filename=f"{run_id}-{file.name}")

    @app.get("/files/runs/{run_id}/report")
    def report(run_id: str, checkpoint: int | None = None) -> Response:
        name = run_id if checkpoint is None else f"{run_id}/checkpoint-{checkpoint}"
        found = results.read_report(paths, results.output(paths, name))
        if found is None:
            raise NotFound("error.no-report", run=name)
        names = {"Content-Disposition": f'attachment; filename="{name.replace("/", "-")}-verify.json"'}
        return Response(found.model_dump_json(indent=2), media_type="application/json", headers=names)

    @app.get("/files/exports/{export_id}/report")
    def export_report(export_id: str) -> Response:
        found = exports.read_report(paths.export(export_id))
        if found is None:
            raise NotFound("error.export-not-found", id=export_id)
        names = {"Content-Disposition": f'attachment; filename="export-{export_id}.json"'}
        return Response(found.model_dump_json(indent=2), media_type="application/json", headers=names)

    @app.get("/files/runs/{run_id}/summary")
    def summary(request: Request, run_id: str) -> Response:
        page = report_html.make(paths, run_id, language(request))
        names = {"Content-Disposition": f'attachment; filename="{paths.run(run_id).id}.html"'}
        return Response(page, media_type="text/html; charset=utf-8", headers=names)

    @app.exception_handler(ZeroBoardError)
    def told(request: Request, error: ZeroBoardError) -> PlainTextResponse:
        lang = language(request)
        words, remedy = say(error.says, lang, **error.params), f"{error.says}.remedy"
        if has(remedy, lang):
            words += "\n" + say(remedy, lang, **error.params)
        return PlainTextResponse(words + "\n", status_code=404 if isinstance(error, NotFound) else 400)

    @app.exception_handler(404)
    def no_such_page(request: Request, error: Exception) -> PlainTextResponse:
        return PlainTextResponse(say("error.no-such-page", language(request)) + "\n", status_code=404)

    app.add_middleware(LastWord, language=language)
    if auth is not None:
        keeper = login.Login(auth)
        app.include_router(login.routes(keeper, base, language))
        app.add_middleware(login.Gate, login=keeper, base=base)
    for each in LANGUAGES:
        gr.mount_gradio_app(
            app,
            dashboard.build(shared, each, base),
            f"/{each}",
            root_path=f"{base}/{each}" if base else None,
            theme=theme(),
            css_paths=[STYLESHEET],
            head=head(base),
            footer_links=[],
            run_history=False,
            ssr_mode=False,
            enable_monitoring=False,
            pwa=False,
            mcp_server=False,
            max_file_size=UPLOAD,
            show_error=True,
        )
    app.add_middleware(Guard, allow=allow_hosts)
    return app


class LastWord:
    """What no handler expected: the traceback goes to the log under an id, and the id to the browser, in a sentence."""

    def __init__(self, app: App, *, language: Callable[[Request], Language]) -> None:
        self.app, self.language = app, language

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Exception as error:  # noqa: BLE001 - told in a sentence; what has begun can only be broken off
            number = log_unexpected(error, str(scope.get("path", "")))
            if begun or scope["type"] != "http":
                return
            lang = self.language(Request(scope))
            answer = PlainTextResponse(say("ui.error.unexpected", lang, id=number) + "\n", status_code=500)
            await answer(scope, receive, send)


def choose_language(fixed: Language | None, cookie: str | None, accepted: str) -> Language:
    """The flag, else the cookie, else the first of the browser's languages that there is, else English."""
    if fixed is not None:
        return fixed
    for each in LANGUAGES:
        if cookie == each:
            return each
    for part in accepted.split(","):
        word = part.split(";")[0].strip().lower()
        for each in LANGUAGES:
            if word and (word == each.lower() or word.split("-")[0] == each.split("-")[0].lower()):
                return each
    return "en"
