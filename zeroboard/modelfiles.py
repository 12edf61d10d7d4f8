"""The files of a model's folder that turn text into tokens and end an answer, by their names in transformers.

Source: transformers 5.24, `tokenization_utils_base.py` (`from_pretrained`) and its tokenizers' `VOCAB_FILES_NAMES`.
`chat_template.json` is none of them: only processors of images and sound read it, so a model that has nothing else is
trained with ChatML.
"""

from __future__ import annotations

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
GENERATION = "generation_config.json"

VOCABULARIES = (TOKENIZER, "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
"""A folder with one of these has a tokenizer."""

TOKEN_FILES = (
    *VOCABULARIES,
    TOKENIZER_CONFIG,
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    TEMPLATE,
)
"""All that decides how a conversation becomes tokens."""


def default_template(entry: object) -> str | None:
    """The template in the `chat_template` of a `tokenizer_config.json`: it, or the one named `default` of several."""
    if isinstance(entry, list):
        named = {item.get("name"): item.get("template") for item in entry if isinstance(item, dict)}
        entry = named.get("default")
    return entry if isinstance(entry, str) and entry else None
