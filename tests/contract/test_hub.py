"""What the process that downloads is told and tells."""

from __future__ import annotations

from zeroboard.contract.hub import HubFetch, HubTold
from zeroboard.contract.problems import Problem


def test_the_token_goes_over_the_pipe_and_into_no_log() -> None:
    asked = HubFetch(repository="a/b", revision=None, root="/hub", lock="/locks", free=1, code=False, token="hf_secret")
    assert HubFetch.model_validate_json(asked.model_dump_json()).token == "hf_secret"
    assert "hf_secret" not in f"{asked!r} {asked}"


def test_what_is_told_reads_back() -> None:
    told = HubTold(problem=Problem(code="hub-gated", params={"repository": "a/b"}))
    assert HubTold.model_validate_json(told.model_dump_json()) == told
