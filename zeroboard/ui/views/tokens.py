"""Data as the model will see it: counts, a histogram of lengths, and a row in colour."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from markupsafe import Markup

from zeroboard.contract.plan import Bin, Decision, TokenFacts
from zeroboard.contract.reports import DataProblem
from zeroboard.contract.samples import Piece, SampleView
from zeroboard.contract.spec import DataSpec
from zeroboard.messages import Language, has, say
from zeroboard.ui.views.markup import badge, join, rows, sentences, severity_word, table, tag, worded


def facts(
    tokens: TokenFacts,
    suggestion: Decision | None,
    problems: Iterable[DataProblem],
    *,
    data: DataSpec,
    lang: Language,
) -> Markup:
    """Counts, histogram, a suggestion where another length would be better, and what is wrong with which rows."""
    pairs = [
        (say("ui.tokens.rows", lang), f"{tokens.rows:,}"),
        (say("ui.tokens.tokens", lang), f"{tokens.tokens:,}"),
        (say("ui.tokens.learned", lang), f"{tokens.learned:,}"),
        (say("ui.tokens.longest", lang), f"{tokens.longest:,}"),
        (say("ui.tokens.truncated", lang), f"{tokens.truncated:,}"),
        (say("ui.tokens.left-out", lang), f"{tokens.refused + tokens.without_trainable:,}"),
    ]
    if tokens.evaluation:
        pairs.insert(1, (say("ui.tokens.evaluation", lang), f"{tokens.evaluation:,}"))
    max_length, advice = data.max_length, None
    if suggestion is not None and suggestion.value != max_length:
        words = say("ui.tokens.suggestion", lang, value=suggestion.value)
        advice = tag("p", sentences((words, say(suggestion.says, lang, **suggestion.params)), lang), class_="zb-note")
    items = [_problem(problem, lang) for problem in problems]
    wrong = tag("ul", *items, class_="zb-problems") if items else None
    title = tag("h2", say("ui.tokens.title", lang))
    drawn = (_parts(tokens, data, lang), histogram(tokens, max_length, lang))
    return join((title, rows(pairs, "zb-facts grid"), *drawn, advice, wrong))


def _parts(tokens: TokenFacts, data: DataSpec, lang: Language) -> Markup | None:
    """What an epoch sees of each file, by its weight; the share of the learned tokens to scale."""
    if not tokens.parts:
        return None
    head = [say(f"ui.tokens.parts.{name}", lang) for name in ("file", "weight", "rows", "seen", "share")]
    paths = (data.path, *(one.path for one in data.more))
    body = []
    for path, weight, part in zip(paths, data.mix.weights, tokens.parts, strict=True):
        share = part.learned / tokens.learned if tokens.learned else 0.0
        bar = tag("span", tag("span", "", style=f"width:{100 * share:.1f}%"), class_="zb-share", aria_hidden="true")
        counts = (f"{weight:g}", f"{part.rows:,}", f"{part.seen:,}")
        body.append((path.rsplit("/", 1)[-1], *counts, join((bar, f"{100 * share:.1f} %"))))
    return table(head, body, caption=say("ui.tokens.parts", lang), numbers_from=1)


def _problem(problem: DataProblem, lang: Language) -> Markup:
    words = tag("span", say(problem.message_key, lang, **problem.params), class_="words")
    key = f"{problem.message_key}.remedy"
    remedy = tag("span", worded(say(key, lang, **problem.params)), class_="remedy") if has(key, lang) else None
    mark = badge(problem.severity, severity_word(problem.severity, lang))
    return tag("li", mark, tag("div", words, remedy), class_=f"zb-problem {problem.severity}")


def histogram(tokens: TokenFacts, max_length: int, lang: Language) -> Markup:
    """A bar for each span of lengths; those beyond the maximum are hatched. Each bar says what it stands for."""
    most = max((bar.rows for bar in tokens.histogram), default=1)
    title = say("ui.tokens.histogram", lang)
    bars = tag(
        "ol", *(_bar(bar, most, max_length, lang) for bar in tokens.histogram), class_="zb-bars", aria_label=title
    )
    last = tokens.histogram[-1].end if tokens.histogram else 0
    limit = say("ui.tokens.limit", lang, length=f"{max_length:,}")
    scale = tag("div", tag("span", "0"), tag("span", f"{last:,}"), class_="scale")
    return tag(
        "figure",
        tag("figcaption", say("ui.bracketed", lang, words=title, more=limit)),
        bars,
        scale,
        class_="zb-histogram",
    )


def _bar(bar: Bin, most: int, max_length: int, lang: Language) -> Markup:
    words = say("ui.tokens.bar", lang, start=f"{bar.start:,}", end=f"{bar.end:,}", rows=f"{bar.rows:,}")
    height = max(2.0, 100 * bar.rows / most) if bar.rows else 0
    inside = tag("span", words, class_="zb-sr")
    return tag(
        "li", inside, style=f"height:{height:.1f}%", title=words, class_="beyond" if bar.start > max_length else None
    )


def sample(view: SampleView, lang: Language, *, ids: bool) -> Markup:
    """The row's text with what is learned marked; with `ids` the numbers of the tokens stand below them."""
    said = say("ui.tokens.sample", lang, row=view.row, tokens=f"{view.tokens:,}", learned=f"{view.learned:,}")
    notes = []
    if view.folded:
        notes.append(tag("p", say("ui.tokens.folded", lang), class_="zb-hint"))
    if view.shown < view.tokens:
        notes.append(tag("p", say("ui.tokens.more", lang, shown=f"{view.shown:,}"), class_="zb-hint"))
    text = (_with_ids if ids else _runs)(view)
    classes = "zb-sample ids" if ids else "zb-sample"
    box = tag("div", *text, class_=classes, tabindex="0", role="region", aria_label=said)
    return join((tag("h3", said), legend(lang), box, *notes))


def legend(lang: Language) -> Markup:
    """What the marks mean, in words that bear them."""
    words = [
        tag("span", say(f"ui.tokens.legend.{name}", lang), class_=f"tok {name}")
        for name in ("learned", "context", "special", "cut")
    ]
    return tag("p", *words, class_="zb-legend", role="note", aria_label=say("ui.tokens.legend", lang))


def _kind(piece: Piece) -> str:
    marks = ["tok", "learned" if piece.learned and not piece.cut else "context"]
    return " ".join((*marks, *(["special"] if piece.special else []), *(["cut"] if piece.cut else [])))


def _runs(view: SampleView) -> list[Markup]:
    """Neighbours of one kind as one piece of text; special tokens stay apart."""
    found = []
    for (kind, special, _), pieces in groupby(
        enumerate(view.pieces), key=lambda one: (_kind(one[1]), one[1].special, one[0] if one[1].special else -1)
    ):
        text = "".join(piece.text for _, piece in pieces)
        found.append(tag("mark" if "learned" in kind and not special else "span", text, class_=kind))
    return found


def _with_ids(view: SampleView) -> list[Markup]:
    return [
        tag(
            "span",
            tag("span", piece.text.replace("\n", "↵\n"), class_="text"),
            tag("span", " ".join(map(str, piece.ids)), class_="id"),
            class_=_kind(piece),
        )
        for piece in view.pieces
    ]
