"""What an exception in a data row is, and that the whole table can be spoken of."""

from __future__ import annotations

import pytest

from zeroboard.contract.findings import FINDING_CODES
from zeroboard.diagnosis.matching import RULES, of_exception
from zeroboard.messages import LANGUAGES, has

VARIANTS = ("killed-by-signal.crash", "python-exception.echo", "python-exception.silent")


@pytest.mark.parametrize(
    "frame",
    ["/w/reader.py:__getitem__", "/x/torch/utils/data/_utils/fetch.py:fetch", "/w/train.py:tokenize_row",
     "/x/datasets/arrow_dataset.py:_map_single", "/x/zeroboard/engine/tokens.py:main"],
)  # fmt: skip
def test_an_exception_while_a_row_is_read_is_about_the_data(frame: str) -> None:
    assert of_exception("KeyError: 'answer'", ["/w/train.py:main", frame])[0].code == "data-refused"


def test_a_disk_that_fails_while_a_row_is_read_is_not_and_other_frames_are_not() -> None:
    assert of_exception("OSError: [Errno 5] x", ["/w/reader.py:__getitem__"])[0].code == "python-exception"
    assert of_exception("KeyError: 'answer'", ["/w/model.py:forward"])[0].code == "python-exception"


def test_a_known_sentence_goes_before_the_frame() -> None:
    frames = ["/w/train.py:tokenize"]
    assert of_exception("jinja2.exceptions.TemplateError: no", frames)[0].code == "template-refused"


def test_every_code_has_its_sentence_in_every_language() -> None:
    keys = {f"finding.{key}" for key in (*FINDING_CODES, *VARIANTS, *(rule.key for rule in RULES))}
    assert [(key, language) for key in keys for language in LANGUAGES if not has(key, language)] == []
