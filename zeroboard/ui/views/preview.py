"""The preview: command by argument, environment, files with their telling lines pointed out. From the plan alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from markupsafe import Markup

from zeroboard.contract.plan import Plan
from zeroboard.messages import Language, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import empty, join, problem_list, rows, short_path, table, tag

POINTED: dict[str, str] = {
    "zero_optimization.stage": "stage",
    "zero_optimization.offload_optimizer.device": "offload-optimizer",
    "zero_optimization.offload_param.device": "offload-param",
    "train_batch_size": "global",
    "train_micro_batch_size_per_gpu": "micro",
    "gradient_accumulation_steps": "accumulation",
    "bf16.enabled": "bf16",
    "fp16.enabled": "fp16",
    "zero.stage": "stage",
    "zero.offload": "offload",
    "train.micro_batch": "micro",
    "train.accumulation": "accumulation",
    "train.precision": "precision",
}
"""Key path in a file → the note beside its line (`ui.note.<word>`)."""

_KEY = re.compile(r'^(\s*)(?:"([^"]+)"|([\w.-]+)):')


def nothing(lang: Language) -> Markup:
    """Before the first preview."""
    return empty(say("ui.preview.empty.title", lang), say("ui.preview.empty.text", lang))


def stale(lang: Language, differs: list[str]) -> Markup:
    """The form has changed since."""
    return tag(
        "div", say("ui.preview.stale", lang, fields=", ".join(differs)), class_="zb-notice warning", role="status"
    )


def page(plan: Plan, lang: Language, state_words: str) -> Markup:
    """The whole preview of a written plan."""
    facts = [
        (say("ui.preview.run", lang), tag("code", plan.run_id or "")),
        (say("ui.preview.state", lang), state_words),
        (say("ui.preview.folder", lang), short_path(plan.folder or "", 72)),
        (say("ui.preview.hash", lang), tag("code", f"sha256 {plan.files_hash[:16]}…", title=plan.files_hash)),
    ]
    return join(
        (
            rows(facts),
            problem_list(plan.problems, lang),
            _section("command", command(plan.argv), say("ui.preview.command", lang), lang),
            _environment(plan, lang),
            *(file(name, content, plan, lang) for name, content in plan.files.items()),
        )
    )


def command(argv: tuple[str, ...]) -> str:
    """The command as a person would type it, an argument (with its value) a line."""
    lines: list[str] = []
    at = 0
    while at < len(argv):
        piece = [argv[at]]
        takes = argv[at].startswith("-") and "=" not in argv[at]
        if takes and at + 1 < len(argv) and not argv[at + 1].startswith("-"):
            piece.append(argv[at + 1])
        at += len(piece)
        lines.append(shlex.join(piece))
    return " \\\n  ".join(lines)


def _section(name: str, text: str, title: str, lang: Language) -> Markup:
    place = f"zb-text-{name}"
    return tag(
        "section",
        tag("div", tag("h3", title), _copy(place, lang), class_="zb-title"),
        tag("pre", tag("code", text), id=place, class_="zb-code", tabindex="0"),
        class_="zb-block",
    )


def _copy(place: str, lang: Language) -> Markup:
    return tag(
        "button",
        say("ui.copy", lang),
        type="button",
        class_="zb-link",
        data_copy=place,
        data_done=say("ui.copied", lang),
    )


def _environment(plan: Plan, lang: Language) -> Markup:
    names = [join((tag("code", name), " ")) for name in plan.scrubbed]
    body = [(tag("code", name), tag("code", value)) for name, value in sorted(plan.env.items())]
    return tag(
        "section",
        tag("div", tag("h3", say("ui.preview.environment", lang)), class_="zb-title"),
        table(
            (say("ui.preview.variable", lang), say("ui.preview.value", lang)),
            body,
            caption=say("ui.preview.environment", lang),
        ),
        tag("details", tag("summary", say("ui.preview.scrubbed", lang, n=len(plan.scrubbed))), tag("p", *names))
        if names
        else None,
        class_="zb-block",
    )


def file(name: str, content: str, plan: Plan, lang: Language) -> Markup:
    """A file line by line; the lines that decide stage, offload, batch and precision stand out with a note."""
    place = f"zb-file-{name.replace('.', '-')}"
    lines = [
        tag(
            "div",
            tag("span", text or " ", class_="code"),
            tag("span", say(f"ui.note.{note}", lang, ranks=plan.batch.gpus), class_="note") if note else None,
            class_="line on" if note else "line",
        )
        for text, note in _noted(content)
    ]
    where = f"{plan.folder}/{name}" if plan.folder else name
    return tag(
        "section",
        tag("div", tag("h3", tag("code", name)), _copy(place, lang), class_="zb-title"),
        tag("p", short_path(where, 80), " · ", numbers.size(len(content.encode()), lang), class_="zb-note"),
        tag("div", *lines, class_="zb-lines", tabindex="0", role="region", aria_label=name),
        tag("textarea", content, id=place, hidden=True, readonly=True),
        class_="zb-block",
    )


def _noted(content: str) -> Iterator[tuple[str, str | None]]:
    """Each line with its note; the path of a key follows from the indentation of JSON and YAML alike."""
    above: list[tuple[int, str]] = []
    for text in content.splitlines():
        found = _KEY.match(text)
        if found is None:
            yield text, None
            continue
        depth = len(found[1])
        while above and above[-1][0] >= depth:
            above.pop()
        above.append((depth, found[2] or found[3]))
        note = POINTED.get(".".join(name for _, name in above))
        if note in ("bf16", "fp16"):
            note += ".on" if "true" in text else ".off"
        yield text, note
