"""A person's own prompts, asked after each run beside the fixed ones: `cache/prompts.json`."""

from __future__ import annotations

import logging

from pydantic import ValidationError

from zeroboard.contract.base import Record
from zeroboard.files import to_json, write_atomic
from zeroboard.paths import Paths

log = logging.getLogger(__name__)

MOST = 20
"""Prompts that are kept: each costs a short answer of two models after every run."""

LONGEST = 2000
"""Characters of one."""


class SavedPrompts(Record):
    """The file."""

    prompts: tuple[str, ...] = ()


def read_prompts(paths: Paths) -> tuple[str, ...]:
    """The prompts; none where the file is missing, or (logged) cannot be read: no run fails for that."""
    try:
        found = SavedPrompts.model_validate_json(paths.prompts.read_bytes())
    except FileNotFoundError:
        return ()
    except (ValidationError, OSError) as error:
        log.warning("%s cannot be read: %s", paths.prompts, error)
        return ()
    return tuple(prompt[:LONGEST] for prompt in found.prompts if prompt.strip())[:MOST]


def write_prompts(paths: Paths, text: str) -> tuple[str, ...]:
    """Keep the prompts of a text, one a line; what is more than `MOST`, or empty, is left out. Returns them."""
    lines = dict.fromkeys(line.strip()[:LONGEST] for line in text.splitlines() if line.strip())
    kept = tuple(lines)[:MOST]
    write_atomic(paths.prompts, to_json(SavedPrompts(prompts=kept).model_dump(mode="json")))
    return kept
