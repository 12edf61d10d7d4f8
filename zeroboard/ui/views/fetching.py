"""How far it is what comes from a hub, or why it does not."""

from __future__ import annotations

from markupsafe import Markup

from zeroboard.errors import Refused, ZeroBoardError
from zeroboard.messages import Language, say
from zeroboard.planning.hub import HubFolder
from zeroboard.services.fetching import Coming, Job
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import problem_list, tag


def status(job: Job | None, known: HubFolder | None, lang: Language) -> Markup | None:
    """What is to be said of a name of the hub; None where the plan's own problems say it already."""
    if job is not None and not job.ended.is_set():
        return _going(job.coming, lang)
    if job is not None and job.cancelled:
        return tag("p", say("ui.fetch.stopped", lang), class_="zb-note", role="status")
    if job is not None and isinstance(job.error, Refused):
        return tag("div", problem_list(job.error.problems, lang), role="alert")
    if job is not None and isinstance(job.error, ZeroBoardError):
        return tag("p", say(job.error.says, lang, **job.error.params), class_="zb-note", role="alert")
    if known is None:
        return None
    words = say("ui.fetch.here", lang, commit=known.manifest.commit[:12], files=len(known.manifest.files))
    return tag("p", words, class_="zb-note", role="status")


def _going(coming: Coming, lang: Language) -> Markup:
    if coming.share is None:
        return tag("p", say("ui.fetch.asking", lang), class_="zb-note", role="status")
    done, total = numbers.size(coming.done, lang), numbers.size(coming.total, lang)
    fill = tag("div", "", class_="fill", style=f"transform:scaleX({coming.share:.3f})")
    bar = tag(
        "div", fill, class_="zb-progress", role="progressbar", aria_valuemin=0, aria_valuemax=100,
        aria_valuenow=round(100 * coming.share), aria_label=say("ui.fetch.label", lang),
    )  # fmt: skip
    words = say("ui.fetch.coming", lang, done=done, total=total)
    return tag("div", tag("p", words, class_="zb-note"), bar, class_="zb-judging")
