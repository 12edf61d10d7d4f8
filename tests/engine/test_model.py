"""Before the first step: what goes with the weights can be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from zeroboard.engine.model import dry_save


def test_what_goes_with_the_weights_is_tried_before_the_first_step(tiny_model_folder: Path, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_model_folder)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    dry_save(model, tokenizer, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    model.generation_config.temperature = 0.5  # without sampling: transformers refuses to write it
    with pytest.raises(ValueError, match="temperature"):
        dry_save(model, tokenizer, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
