"""How an event reaches its handler: named, private, without spinners, and with every error told as a sentence.

A handler returns what changes, by component (`{component: value}`); what it leaves out stays as it is. An exception
becomes a sentence in the page's notice: ours by their own keys, any other with an id under which the traceback stands
in `cache/logs/dashboard.log`.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from typing import Any, Literal

import gradio as gr

from zeroboard.errors import Busy, Refused, ZeroBoardError
from zeroboard.messages import Language, has, say
from zeroboard.paths import Paths
from zeroboard.ui.views.markup import join, problem_list, run_link, tag

LOG = logging.getLogger("zeroboard.ui")

AGAIN = 60.0
"""Seconds after which the same error is written again: a timer would write it each second."""
_TOLD: dict[str, float] = {}

Changes = Mapping[Any, Any]
"""Component → its new value (or `gr.update(…)`)."""


def open_log(paths: Paths) -> None:
    """Sends what goes wrong in the page to `logs/dashboard.log`; called once, by the one who serves."""
    paths.logs.mkdir(parents=True, exist_ok=True)
    writer = RotatingFileHandler(
        paths.logs / "dashboard.log", maxBytes=4 << 20, backupCount=2, encoding="utf-8", delay=True
    )
    writer.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.handlers[:] = [writer]
    LOG.propagate = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Binds events of one page to handlers."""

    lang: Language
    notice: gr.HTML
    """Where a sentence to the user goes."""
    prefix: str
    """Of the events' names."""

    def on(
        self,
        triggers: Callable[..., Any] | Sequence[Callable[..., Any]],
        handler: Callable[..., Any],
        *,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        quiet: bool = False,
        trigger_mode: Literal["once", "multiple", "always_last"] | None = None,
        js: str | None = None,
    ) -> Any:
        """Binds. `quiet` (timers): a success leaves the notice alone. Generators stream."""
        shown = (*outputs, self.notice)
        return gr.on(
            list(triggers) if isinstance(triggers, Sequence) else [triggers],
            told(handler, shown, self.lang, quiet=quiet),
            inputs=list(inputs),
            outputs=list(shown),
            api_name=f"{self.prefix}_{handler.__name__}",
            api_visibility="private",
            show_progress="hidden",
            concurrency_limit=None,
            trigger_mode=trigger_mode,
            js=js,
        )

    def in_browser(
        self, triggers: Sequence[Callable[..., Any]], js: str, *, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Any:
        """Binds to a JavaScript function alone: at once, and whole even where the page is left a moment later."""
        return gr.on(list(triggers), None, inputs=list(inputs), outputs=list(outputs), js=js, show_progress="hidden")


def told(
    handler: Callable[..., Any], shown: Sequence[Any], lang: Language, *, quiet: bool = False
) -> Callable[..., Any]:
    """The handler with its changes laid out for Gradio, and its exceptions turned into the notice (last of `shown`)."""
    notice = shown[-1]

    def lay(changes: Changes | None) -> list[Any]:
        changes = changes or {}
        strange = [c for c in changes if c not in shown]
        if strange:
            raise KeyError(f"{handler.__name__} changes what it does not own: {strange}")
        rest = gr.skip() if quiet else ""
        return [changes[c] if c in changes else (rest if c is notice else gr.skip()) for c in shown]

    def fail(error: Exception) -> list[Any]:
        return [sentence(error, handler.__name__, lang) if c is notice else gr.skip() for c in shown]

    if inspect.isgeneratorfunction(handler):

        @functools.wraps(handler)
        def stream(*args: Any) -> Iterator[list[Any]]:
            try:
                for changes in handler(*map(sound, args)):
                    yield lay(changes)
            except Exception as error:  # noqa: BLE001 - the page is the last one who can tell it
                yield fail(error)

        return stream

    @functools.wraps(handler)
    def call(*args: Any) -> list[Any]:
        try:
            return lay(handler(*map(sound, args)))
        except Exception as error:  # noqa: BLE001 - the page is the last one who can tell it
            return fail(error)

    return call


def sound(value: Any) -> Any:
    """What a browser sent, without halves of surrogate pairs: they can be sent as JSON, and never be sent back."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [sound(one) for one in value]
    if isinstance(value, dict):
        return {sound(key): sound(one) for key, one in value.items()}
    return value


def sentence(error: Exception, where: str, lang: Language) -> str:
    """An exception as the notice shows it. What is none of ours goes to the log under the id that is shown."""
    if isinstance(error, Refused):
        return notice(say("ui.refused", lang), "error", lang, detail=problem_list(error.problems, lang))
    if isinstance(error, ZeroBoardError):
        remedy = f"{error.says}.remedy"
        words = say(error.says, lang, **error.params)
        words += " " + say(remedy, lang, **error.params) if has(remedy, lang) else ""
        run = error.params.get("run") if isinstance(error, Busy) else None
        return notice(words, "error", lang, detail=run_link(str(run), say("ui.open-run", lang)) if run else None)
    return notice(say("ui.error.unexpected", lang, id=log_unexpected(error, where)), "error", lang)


def log_unexpected(error: Exception, where: str) -> str:
    """Writes the traceback to the log, once a minute at most, and returns the id under which it stands there."""
    trace = traceback.extract_tb(error.__traceback__)
    last = f"{trace[-1].filename}:{trace[-1].lineno}" if trace else ""
    number = f"{zlib.crc32(f'{where} {type(error).__name__} {last}'.encode()):08x}"
    if time.monotonic() - _TOLD.get(number, -AGAIN) >= AGAIN:
        _TOLD[number] = time.monotonic()
        LOG.error("%s in %s", number, where, exc_info=error)
    return number


def notice(words: str, kind: Literal["error", "info"], lang: Language, detail: object = None) -> str:
    """A sentence over the page, with a button that puts it away."""
    close = tag("button", "×", type="button", class_="zb-close", data_close=True, aria_label=say("ui.close", lang))
    body = tag("div", tag("p", words), detail)
    return str(tag("div", body, close, class_=f"zb-notice {kind}", role="alert" if kind == "error" else "status"))


def html(pieces: object | Iterable[object]) -> str:
    """A view's result as the plain text that goes over the wire."""
    return str(pieces if isinstance(pieces, str) else join(pieces))  # type: ignore[arg-type]
