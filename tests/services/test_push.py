"""A folder goes to a stand-in of the hub, by a process of its own; the token goes nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.hub import hub
from zeroboard.errors import Refused
from zeroboard.services import push

TOKEN = "hf_abcdefghijklmnop"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "合并 模型"
    made.mkdir()
    (made / "README.md").write_text("---\ntags:\n- zeroboard\n---\n# x\n")
    (made / "config.json").write_text("{}")
    (made / "model.safetensors").write_bytes(bytes(range(256)) * 8)
    return made


def test_every_file_arrives_and_the_token_is_written_nowhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "job" / "export.log"
    log.parent.mkdir()
    with hub(TOKEN) as known:
        monkeypatch.setenv("HF_ENDPOINT", known.endpoint)
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        where = push.push(folder, "me/tuned", TOKEN, public=False, log=log, cancelled=lambda: False)
        assert where == f"{known.endpoint}/me/tuned"
        assert known.private == {"me/tuned": True}
        assert {name: content for name, content in known.files.items() if name != ".gitattributes"} == {
            file.name: file.read_bytes() for file in folder.iterdir()
        }
        wrong = "hf_somebodyelse"
        with pytest.raises(Refused) as refused:
            push.push(folder, "me/tuned", wrong, public=False, log=log, cancelled=lambda: False)
    (problem,) = refused.value.problems
    assert problem.code == "push-failed"
    assert "401" in str(problem.params["why"])
    everything = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert TOKEN.encode() not in everything and wrong.encode() not in everything


def test_names_and_tokens_are_judged_before_anything_is_sent() -> None:
    assert push.judge("me/tuned", TOKEN) == ()
    for name in ("", "a b/c", "../x", "a/b/c", "me/--x", "x" * 200):
        assert [problem.code for problem in push.judge(name, TOKEN)] == ["push-name"]
    for token in (None, "", "a b", "line\nline", "令牌"):
        assert [problem.code for problem in push.judge("me/tuned", token)] == ["push-token"]
