"""Data as the model will see it: the training's own tokens, and what is said about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tiny import CHATML, tiny_data, tiny_model
from zeroboard.contract.plan import TokenFacts
from zeroboard.contract.spec import DataSpec, ModelSpec, RunSpec
from zeroboard.errors import Refused
from zeroboard.paths import Paths
from zeroboard.planning.tokens import rows_of, suggest_length
from zeroboard.services import tokens, words
from zeroboard.services.judging import judge_data
from zeroboard.services.prepare import plan


@pytest.fixture(scope="module")
def odd_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its template has no place for a system turn."""
    raising = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML
    return tiny_model(tmp_path_factory.mktemp("odd") / "model", template=raising)


def test_a_report_tells_what_the_model_sees_and_the_plan_takes_it(
    paths: Paths, tmp_path: Path, odd_model: Path
) -> None:
    data = tmp_path / "data.jsonl"
    rows = [
        [("user", "Hi"), ("assistant", "No.")],
        [("system", "Be brief."), ("user", "Hi"), ("assistant", "No.")],
        [("user", "Hi"), ("assistant", "a long answer " * 40)],
        [("user", "a long question " * 40), ("assistant", "No.")],
    ]
    data.write_text(
        "".join(json.dumps({"messages": [{"role": r, "content": c} for r, c in row]}) + "\n" for row in rows)
    )
    spec = RunSpec(model=ModelSpec(path=str(odd_model)), data=DataSpec(path=str(data), max_length=64))
    assert tokens.of_spec(paths, spec, start=False) is None
    assert plan(paths, spec).tokens is None
    report = tokens.with_tokens(paths, judge_data(str(data)), model=str(odd_model), max_length=64)
    said = words.data(report)
    found = {(p["code"], p["severity"]): p["rows"] for p in said["problems"]}
    assert found[("truncated", "warning")] == [3, 4] and found[("no-trainable-tokens", "warning")] == [4]
    assert found[("end-token-lost", "warning")] == [3, 4] and found[("template-refused", "warning")] == [2]
    assert said["rows"] == {"total": 4, "usable": 4, "refused": 0, "changed": 1}
    assert said["tokens"]["rows"] == 3 and said["tokens"]["longest"] > 64
    assert sum(bar["rows"] for bar in said["tokens"]["histogram"]) == 4
    assert said["suggestion"]["value"] == 512 < said["tokens"]["longest"]  # what the model was made for
    # the very folder that the training would read
    made = plan(paths, spec)
    assert made.tokens == report.tokens and made.resolved is not None
    assert made.resolved.steps == 3  # three rows, three epochs, one step each
    seen = tokens.of_spec(paths, spec, start=False)
    assert seen is not None and seen.tokens == report.tokens
    assert rows_of(seen.tokens, "packed") == seen.tokens.packed == 2 < rows_of(seen.tokens, "none")


def test_nothing_to_learn_is_an_error_of_the_plan(paths: Paths, tmp_path: Path, tiny_model_folder: Path) -> None:
    data = tiny_data(tmp_path / "data.jsonl", rows=2)
    spec = RunSpec(model=ModelSpec(path=str(tiny_model_folder)), data=DataSpec(path=str(data), max_length=8))
    seen = tokens.of_spec(paths, spec, start=True)
    assert seen is not None and seen.tokens.rows == 0
    assert next((p.code, p.severity) for p in seen.problems) == ("no-trainable-tokens", "error")
    assert [p.field for p in plan(paths, spec).problems if p.severity == "error"] == ["data.max_length"]


def test_a_row_is_shown_piece_by_piece(paths: Paths, tmp_path: Path, tiny_model_folder: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"instruction": "Hi 🙂", "output": "显存 🙂"}, ensure_ascii=False) + "\n")
    view = tokens.sample(paths, str(data), str(tiny_model_folder), row=1, max_length=24)
    text = "<|im_start|>user\nHi 🙂<|im_end|>\n<|im_start|>assistant\n显存 🙂<|im_end|>\n"
    assert "".join(piece.text for piece in view.pieces) == text
    assert "".join(piece.text for piece in view.pieces if piece.learned) == "显存 🙂<|im_end|>"
    assert {piece.text for piece in view.pieces if piece.special} == {"<|im_start|>", "<|im_end|>"}
    assert sum(len(piece.ids) for piece in view.pieces) == view.tokens == view.shown
    assert any(len(piece.ids) > 1 for piece in view.pieces) and view.pieces[-1].cut and not view.pieces[0].cut
    with pytest.raises(Refused) as refused:
        tokens.sample(paths, str(data), str(tiny_model_folder), row=2, max_length=24)
    assert refused.value.problems[0].says == "problem.data-refused.no-row"


def test_a_length_is_suggested_with_its_reason() -> None:
    def at(longest: int, p99: int) -> object:
        facts = TokenFacts(
            key="k", rows=4, tokens=9, learned=4, longest=longest, p99=p99, truncated=0, end_token_lost=0,
            without_trainable=0, template="model",
        )  # fmt: skip
        return suggest_length(facts, 4096)

    assert at(longest=900, p99=700) == (960, "decision.length.longest")
    assert at(longest=9000, p99=700) == (704, "decision.length.most")
    assert at(longest=9000, p99=8000) == (4096, "decision.length.context")
    assert at(longest=0, p99=0) is None
