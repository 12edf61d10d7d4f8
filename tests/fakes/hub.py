"""A stand-in for the hub on loopback: makes repositories, takes files, remembers what it was told. Speaks what
`huggingface_hub` 1.x asks for when a folder is uploaded; nothing else."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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


@contextmanager
def hub(token: str) -> Iterator[Hub]:
    """A hub that stands while the block runs."""
    known = Hub(token)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: object) -> None:
            return

        def answer(self, value: Any, code: int = 200) -> None:
            body = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

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

        def do_GET(self) -> None:
            self.answer({"error": "Not found"}, 404)

        do_HEAD = do_GET

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

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    known.endpoint = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield known
    finally:
        server.shutdown()
        server.server_close()
