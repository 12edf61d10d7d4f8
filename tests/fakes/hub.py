"""A stand-in for the hub on loopback: makes repositories, takes files, remembers what it was told. Speaks what
`huggingface_hub` 1.x asks for when a folder is uploaded or a model is fetched; nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.fakes.serving import Answering, serving

COMMIT = "c0ffee" + "0" * 34
"""Of every model's default branch."""
TOKEN = "hf_abcdefghijklmnop"
LARGE = (".safetensors", ".bin", ".gguf", ".parquet")


@dataclass
class Model:
    """A repository to fetch."""

    files: dict[str, bytes]
    gated: bool = False
    """Its files are given to the token alone; who asks about it is answered."""
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    """Branch or tag → commit."""

    def told(self, name: str, *, tree: bool) -> dict[str, Any]:
        """What the hub says about a file: in the listing of a tree, or among a model's facts."""
        content = self.files[name]
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        found = {
            "size": len(content),
            **({"type": "file", "path": name, "oid": blob} if tree else {"rfilename": name, "blobId": blob}),
        }
        if name.endswith(LARGE):
            digest = hashlib.sha256(content).hexdigest()
            found["lfs"] = {"size": len(content), "pointerSize": 134, "oid" if tree else "sha256": digest}
        return found


@dataclass
class Hub:
    """What it knows afterwards."""

    token: str
    """The only one that may write."""
    endpoint: str = ""
    private: dict[str, bool] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    """Name in the repository → content."""
    stored: dict[str, bytes] = field(default_factory=dict)
    """SHA-256 → content, of large files."""
    models: dict[str, Model] = field(default_factory=dict)
    """Repository → what can be fetched."""
    datasets: dict[str, Model] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    """Before how many bytes each of the next answers with weights is cut off."""
    stalls: bool = False
    """Weights stop coming half-way, and the connection stays."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """(name, `Range` header) of each file that was asked for."""


@contextmanager
def hub(token: str) -> Iterator[Hub]:
    """A hub that stands while the block runs."""
    known = Hub(token)

    class Handler(Answering):
        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def allowed(self) -> bool:
            return self.headers.get("Authorization") == f"Bearer {known.token}"

        def do_PUT(self) -> None:
            known.stored[self.path.rpartition("/")[2]] = self.body()
            self.answer({})

        def refuse(self, code: int, error: str) -> None:
            self.send_response(code)
            self.send_header("X-Error-Code", error)
            self.send_header("X-Error-Message", error)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            path = urlsplit(self.path).path.removeprefix("/api")
            there = known.datasets if path.startswith("/datasets/") else known.models
            names = path.removeprefix("/datasets/").removeprefix("/models/").strip("/")
            parts = [unquote(part) for part in names.split("/")]  # a revision may hold a slash
            model = there.get("/".join(parts[:2]))
            if model is None:
                return self.refuse(401, "RepoNotFound")  # as the real one says to those it does not know
            kind, asked, rest = parts[2] if parts[2:] else "", parts[3] if parts[3:] else "main", "/".join(parts[4:])
            commit = asked if asked in model.revisions.values() else model.revisions.get(asked)
            if commit is None:
                return self.refuse(404, "RevisionNotFound")
            if kind == "tree":
                return self.answer([model.told(name, tree=True) for name in model.files])
            if kind != "resolve":
                listed = [model.told(name, tree=False) for name in model.files]
                return self.answer({"id": "/".join(parts[:2]), "sha": commit, "siblings": listed})
            if model.gated and not self.allowed():
                return self.refuse(403 if self.headers.get("Authorization") else 401, "GatedRepo")
            return self.give(model, rest, commit)

        do_HEAD = do_GET

        def give(self, model: Model, name: str, commit: str) -> None:
            content, told = model.files[name], model.told(name, tree=True)
            given = self.headers.get("Range") or ""
            start = int(given.removeprefix("bytes=").split("-")[0]) if given else 0
            self.send_response(206 if given else 200)
            self.send_header("ETag", f'"{told.get("lfs", told)["oid"]}"')
            self.send_header("X-Repo-Commit", commit)
            self.send_header("Content-Length", str(len(content) - start))
            if given:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            if self.command == "HEAD":
                return
            known.asked.append((name, given))
            weights, half = name.endswith(LARGE), len(content) // 2
            if weights and known.cuts:
                self.wfile.write(content[start : start + known.cuts.pop(0)])
                self.close_connection = True
            elif weights and known.stalls:
                self.wfile.write(content[start:half])
                self.wfile.flush()
                time.sleep(30)
            else:
                self.wfile.write(content[start:])

        def do_POST(self) -> None:
            body = self.body()
            if not self.allowed():
                self.answer({"error": "Invalid credentials in Authorization header"}, 401)
            elif self.path == "/api/repos/create":
                asked = json.loads(body)
                name = f"{asked.get('organization') or 'me'}/{asked['name']}"
                known.private[name] = bool(asked.get("private") or asked.get("visibility") == "private")
                self.answer({"url": f"{known.endpoint}/{name}", "name": name})
            elif self.path == "/api/validate-yaml":
                self.answer({"errors": [], "warnings": []})
            elif "/preupload/" in self.path:
                names = [one["path"] for one in json.loads(body)["files"]]
                modes = ["lfs" if name.endswith((".safetensors", ".gguf")) else "regular" for name in names]
                told = [
                    {"path": name, "uploadMode": mode, "shouldIgnore": False, "oid": None}
                    for name, mode in zip(names, modes, strict=True)
                ]
                self.answer({"files": told})
            elif self.path.endswith("/info/lfs/objects/batch"):
                objects = [
                    {
                        "oid": one["oid"],
                        "size": one["size"],
                        "actions": {"upload": {"href": f"{known.endpoint}/lfs/{one['oid']}", "header": {}}},
                    }
                    for one in json.loads(body)["objects"]
                ]
                self.answer({"transfer": "basic", "objects": objects})
            elif "/commit/" in self.path:
                for line in body.splitlines():
                    one = json.loads(line)
                    if one["key"] == "file":
                        known.files[one["value"]["path"]] = base64.b64decode(one["value"]["content"])
                    elif one["key"] == "lfsFile":
                        known.files[one["value"]["path"]] = known.stored[one["value"]["oid"]]
                self.answer({"commitUrl": f"{known.endpoint}/me/x/commit/0", "commitOid": "0" * 40})
            else:
                self.answer({"error": f"not spoken here: {self.path}"}, 404)

    with serving(Handler) as known.endpoint:
        yield known
