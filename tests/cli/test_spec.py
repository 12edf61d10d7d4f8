"""`zeroboard spec`: the example explains every field in the language that was asked for."""

from __future__ import annotations

import json

import pytest
import yaml

from zeroboard.cli import main
from zeroboard.contract.spec import RunSpec
from zeroboard.messages import LANGUAGES, Language, say


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_example_speaks_the_language_that_was_asked_for(
    language: Language, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["spec", "--lang", language]) == 0
    text = capsys.readouterr().out
    assert say("field.data.more.hint", language) in text and RunSpec.model_validate(yaml.safe_load(text))
    assert main(["spec", "--lang", language, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["example"].strip() == text.strip()


def test_the_schema_knows_path_and_weight_of_further_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert set(schema["$defs"]["MixedFile"]["properties"]) == {"path", "weight", "columns"}
