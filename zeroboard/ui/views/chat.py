"""A conversation with a result: where it stands, what the model was given, how its answers went."""

from __future__ import annotations

from markupsafe import Markup

from zeroboard.contract.requests import ChatDone, ChatPrompt, ChatReady, Progress
from zeroboard.errors import Refused, ZeroBoardError
from zeroboard.messages import Language, has, say
from zeroboard.services.results import Freed
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import badge, join, rows, tag


def status(lang: Language, state: str, **params: object) -> Markup:
    """One line beside the title."""
    return _line(tag("span", say(f"ui.chat.status.{state}", lang, **params), class_="dim"), lang)


def loading(lang: Language, progress: Progress | None) -> Markup:
    words = say("ui.chat.status.loading", lang)
    if progress is not None and progress.says and has(progress.says, lang):
        words = say(progress.says, lang, **progress.params) + " …"
    return _line(tag("span", words, class_="dim"), lang)


def failed(error: ZeroBoardError, lang: Language) -> Markup:
    """Why there is no answer, and what to do."""
    if isinstance(error, Refused):
        told = [(p.message_key, p.remedy_key, p.params) for p in error.problems]
    else:
        told = [(error.says, f"{error.says}.remedy", error.params)]
    return _bad([_sentence(says, remedy, params, lang) for says, remedy, params in told], lang)


def refused(says: str, params: dict[str, object], lang: Language) -> Markup:
    """A question that could not be answered; the model stays loaded."""
    return _bad([_sentence(says, f"{says}.remedy", params, lang)], lang)


def freed(found: Freed | None, lang: Language) -> Markup:
    """The proof that unloading gave the memory back."""
    if found is None:
        return status(lang, "nothing")
    words = say(
        "ui.chat.status.unloaded" if found.gone else "ui.chat.status.not-gone",
        lang,
        pid=found.pid,
        held=numbers.size(found.held, lang),
        before=numbers.size(found.free_before, lang),
        after=numbers.size(found.free_after, lang),
    )
    return _line(tag("span", badge("pass" if found.gone else "fail", say("ui.chat.freed", lang)), " ", words), lang)


def prompt(told: ChatPrompt | None, ready: ChatReady | None, lang: Language) -> Markup:
    """What the model was given, as text, and what will end its answer."""
    if told is None:
        return tag("p", say("ui.chat.prompt.none", lang), class_="zb-note")
    facts = [
        (say("ui.chat.prompt.tokens", lang), numbers.count(told.tokens, lang)),
        (say("ui.chat.prompt.stops", lang), join((tag("code", stop) for stop in told.stops), " ")),
    ]
    if ready is not None:
        facts.append((say("ui.chat.prompt.template", lang), say(f"ui.chat.template.{ready.template}", lang)))
    return join((rows(facts), tag("pre", told.text, class_="zb-code wrap", tabindex="0")))


def figures(done: ChatDone, first: float | None, lang: Language, unfit: int = 0) -> Markup:
    """Under an answer: its length, its speed, and why it ended; and where it is not the trained model's.

    `first`: seconds until its first token. `unfit`: weights that did not find their place.
    """
    said = [say("ui.chat.figures.tokens", lang, n=done.tokens, s=f"{done.seconds:.1f}")]
    if done.tokens > 1 and done.seconds > 0:
        said.append(say("ui.chat.figures.speed", lang, n=f"{done.tokens / done.seconds:.1f}"))
    if first is not None:
        said.append(say("ui.chat.figures.first", lang, s=f"{first:.2f}"))
    said.append(say(f"ui.chat.end.{done.end}", lang))
    told = tag("p", " · ".join(said), class_="zb-note num")
    if not unfit:
        return told
    mark = badge("warn", say("ui.verdict.warn", lang))
    return join((told, tag("p", mark, " ", say("chat.unfit", lang, count=unfit), role="alert")))


def _line(inside: Markup, lang: Language) -> Markup:
    return tag(
        "div",
        tag("h3", say("ui.chat.title", lang)),
        tag("div", inside, role="status", class_="zb-chat-said"),
        class_="zb-title",
    )


def _bad(lines: list[Markup], lang: Language) -> Markup:
    return join(
        (
            tag("div", tag("h3", say("ui.chat.title", lang)), class_="zb-title"),
            tag("div", tag("div", *lines), class_="zb-notice error", role="alert"),
        )
    )


def _sentence(says: str, remedy: str, params: object, lang: Language) -> Markup:
    values = dict(params) if isinstance(params, dict) else {}
    more = say(remedy, lang, **values) if has(remedy, lang) else None
    words = say(says, lang, **values) if has(says, lang) else say("ui.chat.status.failed", lang, why=says)
    return tag("p", words, " " if more else None, more)
