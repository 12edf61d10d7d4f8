"""Short verbs: the answer, the progress, and how a bad end is told."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.fakes import popen
from zeroboard.contract.requests import ConvertRequest, Progress
from zeroboard.errors import EngineFailed
from zeroboard.runs import verbs


def env(**more: str) -> dict[str, str]:
    return {**os.environ, **more}


def test_progress_and_answer_come_back_and_the_rest_goes_to_the_log(tmp_path: Path) -> None:
    seen: list[Progress] = []
    log = tmp_path / "logs" / "verbs.log"
    request = ConvertRequest(name="m", target=str(tmp_path / "m"))
    answer = verbs.call("convert", request, on_progress=seen.append, popen=popen, log_to=log)
    assert answer.value == {"path": str(tmp_path / "m")} and [p.done for p in seen] == [0.5]
    assert log.read_text() == "this goes to the log\n"


def test_a_verb_that_ends_badly_is_told_with_its_last_words(tmp_path: Path) -> None:
    request = ConvertRequest(name="m", target=str(tmp_path / "m"))
    with pytest.raises(EngineFailed) as failed:
        verbs.call("convert", request, popen=popen, env=env(FAKE_VERB_FAILS="convert"))
    assert failed.value.params["code"] == 1 and "fake trouble" in failed.value.params["tail"]


def test_a_cancelled_verb_is_ended(tmp_path: Path) -> None:
    request = ConvertRequest(name="m", target=str(tmp_path / "m"))
    begin = time.monotonic()
    with pytest.raises(verbs.Cancelled):
        verbs.call(
            "convert",
            request,
            popen=popen,
            env=env(FAKE_VERB_HANGS="convert"),
            cancelled=lambda: time.monotonic() - begin > 1,
        )
    assert time.monotonic() - begin < 5


def test_an_engine_process_gets_no_password_of_the_page_and_no_hub() -> None:
    secrets = {"ZEROBOARD_AUTH": "me:secret", "HF_TOKEN": "hf_secret"}
    given = verbs.environment({"PATH": "/bin", "HF_HUB_OFFLINE": "0", **secrets})
    assert given["PATH"] == "/bin" and given["HF_HUB_OFFLINE"] == "1" and not secrets.keys() & given.keys()
    assert verbs.environment(None)["PATH"] == os.environ["PATH"]


def test_threads_of_a_verb_sleep_while_they_wait_unless_a_person_wants_them_to_spin() -> None:
    assert verbs.environment({"PATH": "/bin"})["OMP_WAIT_POLICY"] == "PASSIVE"
    assert verbs.environment({"OMP_WAIT_POLICY": "ACTIVE"})["OMP_WAIT_POLICY"] == "ACTIVE"
