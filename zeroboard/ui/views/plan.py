"""What the form would do: the panel at its side, and the one-line summaries of its cards."""

from __future__ import annotations

from markupsafe import Markup

from zeroboard.contract.plan import Plan, Promise
from zeroboard.contract.problems import Problem, errors
from zeroboard.contract.spec import RunSpec
from zeroboard.messages import Language, say
from zeroboard.ui.form import Card
from zeroboard.ui.views import numbers
from zeroboard.ui.views.difference import changes
from zeroboard.ui.views.markup import badge, field_label, join, problem_list, rows, tag
from zeroboard.ui.views.stages import HELD, bar, total


def panel(plan: Plan | None, problems: tuple[Problem, ...], lang: Language, disk_free: int | None = None) -> Markup:
    """The plan at a glance: verdict, batch sum, steps, files, disk, what each rank holds, reasons, problems."""
    parts: list[object] = [
        tag("div", tag("h2", say("ui.plan.title", lang)), _verdict(problems, lang), class_="zb-title")
    ]
    parts.append(problem_list((problem for problem in problems if problem.code != UNJUDGED), lang))
    waits = [say(problem.message_key, lang, **problem.params) for problem in problems if problem.code == UNJUDGED]
    parts += [tag("p", words, class_="zb-note", role="status") for words in waits]
    if plan is not None:
        parts.append(_sums(plan, lang, disk_free))
        if plan.promise is not None:
            parts.append(holds(plan.promise, plan.batch.gpus, lang))
        parts.append(_decisions(plan, lang))
    return tag("div", join(parts), class_="zb-plan")


UNJUDGED = "data-unjudged"
"""Code of the problem that the data is being judged, or was not: nothing is wrong with it yet."""
BUSY = "gpu-busy"
"""Code of the problem that another run holds the devices: the plan is sound, and Start would be refused yet."""


def _verdict(problems: tuple[Problem, ...], lang: Language) -> Markup:
    bad = errors(problems)
    if bad and all(problem.code == UNJUDGED for problem in bad):
        return badge("warn", say("ui.plan.waiting", lang))
    if bad:
        return badge("fail", say("ui.plan.refused", lang, n=len(bad)))
    if any(problem.code == BUSY for problem in problems):
        return badge("warn", say("ui.plan.busy", lang))
    warned = sum(1 for problem in problems if problem.severity == "warning")
    return badge("warn", say("ui.plan.warned", lang, n=warned)) if warned else badge("pass", say("ui.plan.ready", lang))


def taken_over(name: str, count: int, told: tuple[Problem, ...], lang: Language) -> Markup:
    """What became of a brought DeepSpeed file: how many settings it changed, and what is to be told about it."""
    line = tag("p", say("ui.own-json.taken", lang, name=name, count=count), role="status")
    return join((line, problem_list(told, lang)))


def why_not(problems: tuple[Problem, ...], lang: Language) -> str:
    """Why Preview and Start are disabled; empty where they are not."""
    bad = errors(problems)
    if bad and all(problem.code == UNJUDGED for problem in bad):
        return say("ui.plan.waiting.why", lang)
    return say("ui.plan.mend-first", lang, n=len(bad)) if bad else ""


def _sums(plan: Plan, lang: Language, disk_free: int | None) -> Markup:
    batch = plan.batch
    total = join(
        (
            tag("span", f"{batch.micro} × {batch.accumulation} × {batch.gpus} = ", class_="dim"),
            tag("strong", str(batch.total)),
            " " + say("ui.plan.samples", lang),
        )
    )
    steps = plan.resolved.steps if plan.resolved else None
    pairs: list[tuple[object, object]] = [
        (tag("span", say("ui.plan.batch", lang), title=say("ui.plan.batch.hint", lang)), total),
        (
            say("ui.plan.steps", lang),
            tag("strong", numbers.count(steps, lang))
            if steps is not None
            else tag("span", say("ui.plan.steps.unknown", lang), class_="dim"),
        ),
    ]
    if plan.tokens is not None:
        pairs.append(
            (
                say("ui.plan.tokens", lang),
                say(
                    "ui.plan.tokens.value",
                    lang,
                    tokens=f"{plan.tokens.tokens:,}",
                    learned=f"{plan.tokens.learned:,}",
                    rows=f"{plan.tokens.rows:,}",
                ),
            )
        )
    if plan.resolved is not None:
        done = plan.resolved
        pairs.append(
            (
                say("ui.plan.runs-on", lang),
                say(
                    f"ui.plan.runs-on.{done.device}",
                    lang,
                    ranks=done.batch.gpus,
                    backend=done.backend,
                    dtype=done.dtype,
                ),
            )
        )
    if plan.disk_bytes is not None and disk_free is not None:
        need, free = numbers.size(plan.disk_bytes, lang), numbers.size(disk_free, lang)
        pairs.append((say("ui.plan.disk", lang), say("ui.plan.disk.value", lang, need=need, free=free)))
    if plan.files:
        pairs.append((say("ui.plan.files", lang), join((tag("code", name, class_="file") for name in plan.files), " ")))
    return rows(pairs)


def holds(promise: Promise, ranks: int, lang: Language) -> Markup:
    """What each rank holds at this stage, drawn to scale, with the figures in the text."""
    figures = (promise.parameter_bytes, promise.gradient_bytes, promise.optimizer_bytes)
    legend = [
        tag(
            "li",
            tag("span", "", class_=f"swatch {name}"),
            say(f"ui.holds.{name}", lang),
            tag("b", numbers.mib(value, lang)),
        )
        for name, value in zip(HELD, figures, strict=True)
    ]
    words = say("ui.holds.title", lang, ranks=ranks, total=numbers.mib(total(promise), lang))
    if promise.offloaded_bytes:
        legend.append(
            tag(
                "li",
                tag("span", "", class_="swatch host"),
                say("ui.holds.offloaded", lang),
                tag("b", numbers.mib(promise.offloaded_bytes, lang)),
            )
        )
    return tag(
        "figure",
        tag("figcaption", words),
        bar(promise, total(promise) or 1),
        tag("ul", *legend, class_="zb-legend"),
        class_="zb-holds",
    )


def _decisions(plan: Plan, lang: Language) -> Markup | None:
    if not plan.decisions:
        return None
    items = [
        tag(
            "li",
            tag("span", tag("code", d.field), " = ", tag("b", _value(d.value)), class_="what"),
            tag("span", say(d.says, lang, **d.params), class_="why"),
        )
        for d in plan.decisions
    ]
    return tag(
        "details",
        tag("summary", say("ui.plan.decisions", lang, n=len(items))),
        tag("ul", *items, class_="zb-decisions"),
    )


def _value(value: object) -> str:
    return "true" if value is True else "false" if value is False else "—" if value is None else str(value)


def summary(card: Card, spec: RunSpec | None, plan: Plan | None, lang: Language) -> str:
    """A card's heading: its name, and in a line what is chosen in it."""
    title = say(f"ui.card.{card}", lang)
    if spec is None:
        return title
    chosen = {
        "model": lambda: [spec.model.path.rsplit("/", 1)[-1], *_model_words(plan, lang)],
        "data": lambda: [_data_words(spec), say("ui.card.data.length", lang, n=spec.data.max_length)],
        "method": lambda: _method_words(spec, lang),
        "train": lambda: [
            say("ui.card.train.rate", lang, rate=numbers.rate(spec.train.learning_rate, lang)),
            say("ui.card.train.epochs", lang, n=f"{spec.train.epochs:g}"),
            f"{spec.train.micro_batch} × {spec.train.accumulation}",
        ],
        "zero": lambda: [
            say(
                "ui.card.zero.none" if spec.zero.stage == "none" else "ui.card.zero.stage", lang, stage=spec.zero.stage
            ),
            say(f"ui.card.zero.offload.{spec.zero.offload}", lang),
        ],
    }[card]()
    return f"{title} · " + " · ".join(words for words in chosen if words)


def _data_words(spec: RunSpec) -> str:
    name = spec.data.path.rsplit("/", 1)[-1]
    return f"{name} + {len(spec.data.more)}" if spec.data.more else name


def _model_words(plan: Plan | None, lang: Language) -> list[str]:
    facts = plan.model if plan else None
    if facts is None:
        return []
    return [numbers.millions(facts.parameters, lang) if facts.parameters else "", facts.dtype or ""]


def _method_words(spec: RunSpec, lang: Language) -> list[str]:
    word = say(f"field.method.kind.choice.{spec.method.kind}", lang)
    if spec.method.kind == "full":
        return [word]
    return [word, f"r {spec.method.rank}", f"α {spec.method.alpha}"]


def model_card(plan: Plan | None, lang: Language) -> Markup:
    """The model, as its own files tell it."""
    facts = plan.model if plan else None
    if facts is None:
        return tag("p", say("ui.model.none", lang), class_="zb-note")
    yes = {True: say("ui.yes", lang), False: say("ui.model.no-template", lang), None: say("ui.none", lang)}
    pairs = [
        (say("ui.model.architecture", lang), facts.architecture or say("ui.none", lang)),
        (say("ui.model.parameters", lang), numbers.millions(facts.parameters, lang)),
        (say("ui.model.dtype", lang), facts.dtype or say("ui.none", lang)),
        (say("ui.model.context", lang), numbers.count(facts.context_length, lang)),
        (say("ui.model.template", lang), yes[facts.has_template]),
        (say("ui.model.licence", lang), facts.licence or say("ui.none", lang)),
        (say("ui.model.size", lang), numbers.size(facts.size, lang)),
    ]
    note = None if facts.prepared else tag("p", say("ui.model.unprepared", lang), class_="zb-note")
    return join((rows(pairs, "zb-facts grid"), note))


def changed(before: RunSpec, after: RunSpec, lang: Language) -> list[str]:
    """Labels of the fields in which two specs differ."""
    return [field_label(key, lang) for key, _, _ in changes(before, after)]
