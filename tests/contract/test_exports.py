"""What an export's records hold."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from zeroboard.contract.exports import LEAST_SHARD, ExportWish


def test_a_wish_holds_no_token_and_no_tiny_shards() -> None:
    wish = ExportWish(word="last", path="/a", kind="lora-adapter", target="/b")
    assert not [name for name in ExportWish.model_fields if "token" in name or "secret" in name]
    assert ExportWish.model_validate_json(wish.model_dump_json()) == wish
    with pytest.raises(ValidationError):
        ExportWish(word="last", path="/a", kind="lora-adapter", target="/b", shard_bytes=LEAST_SHARD - 1)
