"""A stand-in for ModelScope on loopback: lists the files of a repository and gives them, nothing else. ModelScope's own
client (`modelscope-hub` 0.5.1, `HubApi.download_repo`) was tried on it and fetches models and data sets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.serving import Answering, serving


@dataclass
class Scope:
    """What it holds, and what it was asked."""

    token: str
    endpoint: str = ""
    repositories: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    """(`models` or `datasets`, repository) → name → content, of the branch `master`."""
    gated: set[str] = field(default_factory=set)
    cuts: list[int] = field(default_factory=list)
    """Before how many bytes each of the next answers with a file is cut off."""
    stuck: bool = False
    """Whatever page of a list is asked for, the first comes."""
    listed: int = 0
    """How often a list was asked for."""
    lies: bool = False
    """The list tells hashes that no file has."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """(name, `Range` header) of each file that was asked for."""


@contextmanager
def modelscope(token: str) -> Iterator[Scope]:
    """A ModelScope that stands while the block runs."""
    known = Scope(token)

    class Handler(Answering):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            kind, owner, name, *rest = unquote(address.path).removeprefix("/api/v1/").split("/")
            asked = {key: values[0] for key, values in parse_qs(address.query).items()}
            files = known.repositories.get((kind, f"{owner}/{name}"))
            if files is None or asked["Revision"] != "master":
                return self.answer({"Code": 10010205001, "Message": "not found", "Success": False}, 404)
            mine = f"Bearer {known.token}" == self.headers.get("Authorization")
            if f"{owner}/{name}" in known.gated and not (mine and known.token in (self.headers.get("Cookie") or "")):
                return self.answer({"Code": 403, "Message": "access denied", "Success": False}, 403)
            if rest == ["repo"]:
                return self.give(asked["FilePath"], files[asked["FilePath"]])
            assert rest == ["repo", "files" if kind == "models" else "tree"] and asked["Recursive"] == "True"
            known.listed += 1
            listed = [{"Path": "data", "Type": "tree", "Size": 0, "Sha256": ""}]
            for path, content in files.items():
                digest = "0" * 64 if known.lies else hashlib.sha256(content).hexdigest()
                listed.append({"Path": path, "Type": "blob", "Size": len(content), "Sha256": digest})
            if kind == "datasets":
                size, number = int(asked["PageSize"]), 1 if known.stuck else int(asked["PageNumber"])
                listed = listed[size * (number - 1) : size * number]
            return self.answer({"Code": 200, "Data": {"Files": listed}, "Success": True})

        def give(self, name: str, content: bytes) -> None:
            given = self.headers.get("Range") or ""
            start = int(given.removeprefix("bytes=").split("-")[0]) if given else 0
            known.asked.append((name, given))
            self.send_response(206 if given else 200)
            self.send_header("Content-Length", str(len(content) - start))
            if given:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            if known.cuts:
                self.wfile.write(content[start : start + known.cuts.pop(0)])
                self.close_connection = True
            else:
                self.wfile.write(content[start:])

    with serving(Handler) as known.endpoint:
        yield known
