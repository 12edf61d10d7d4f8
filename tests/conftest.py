"""Fixtures that every room uses."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Llama with its tokenizer; read only, shared by all tests."""
    # here, not at the top: torch is needed only where the fixture is, and most rooms are tested without it
    from tests.tiny import tiny_model

    return tiny_model(tmp_path_factory.mktemp("tiny") / "tiny-llama")


@pytest.fixture(scope="session")
def tiny_data_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 rows in Alpaca's form; read only, shared by all tests."""
    from tests.tiny import tiny_data

    return tiny_data(tmp_path_factory.mktemp("tiny") / "data.jsonl")
