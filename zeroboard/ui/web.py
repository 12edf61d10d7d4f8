"""The web app: guard, login, redirects by language, downloads from confined routes, and the two pages."""

from __future__ import annotations

from collections.abc import Sequence

import gradio as gr
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from zeroboard import __version__
from zeroboard.errors import NotFound, ZeroBoardError
from zeroboard.messages import LANGUAGES, Language, say
from zeroboard.paths import Paths, confine
from zeroboard.services import logs, runs
from zeroboard.ui import dashboard, login
from zeroboard.ui.guard import Guard
from zeroboard.ui.shared import Shared
from zeroboard.ui.theme import LOGO, STYLESHEET, head, theme

LANGUAGE_COOKIE = "zeroboard-language"
UPLOAD = "1mb"
"""Most bytes of an uploaded settings file."""


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
    shared = Shared(paths)
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

    @app.get("/files/runs/{run_id}/logs/{name}")
    def log_file(run_id: str, name: str) -> FileResponse:
        file = confine(logs.path(paths, run_id, name), [paths.run(run_id).logs])
        return FileResponse(file, media_type="text/plain", filename=f"{run_id}-{file.name}")

    @app.get("/files/runs/{run_id}/report")
    def report(run_id: str) -> Response:
        found = runs.reader(paths, run_id).read().report
        if found is None:
            raise NotFound("error.no-report", run=run_id)
        names = {"Content-Disposition": f'attachment; filename="{run_id}-verify.json"'}
        return Response(found.model_dump_json(indent=2), media_type="application/json", headers=names)

    @app.exception_handler(ZeroBoardError)
    def told(request: Request, error: ZeroBoardError) -> PlainTextResponse:
        status = 404 if isinstance(error, NotFound) else 400
        return PlainTextResponse(say(error.says, language(request), **error.params), status_code=status)

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
