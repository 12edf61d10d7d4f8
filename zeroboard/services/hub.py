"""The process that sends a folder to the hub: `python -m zeroboard.services push FILE`.

It reads one `Push` from standard input and writes the address of the repository to FILE. What the hub's library says
goes to standard error without the token.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import httpx
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import disable_progress_bars

from zeroboard.services.push import REFUSED, Push

ENDPOINT = "HF_ENDPOINT"


def main(told: Path) -> int:
    """Send; returns the exit code."""
    asked = Push.model_validate_json(sys.stdin.readline())
    disable_progress_bars()
    api = HfApi(endpoint=os.environ.get(ENDPOINT) or None, token=asked.token)
    try:
        made = api.create_repo(asked.repository, private=not asked.public, exist_ok=True)
        api.upload_folder(repo_id=made.repo_id, folder_path=asked.folder, commit_message="Upload from ZeroBoard")
    except (HfHubHTTPError, HFValidationError, httpx.HTTPError, OSError, ValueError) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        sys.stderr.write(words.replace(asked.token, "…") + "\n")
        return REFUSED
    told.write_text(str(made), encoding="utf-8")
    return 0
