"""A file as a stream of UTF-8, whatever it is packed in and written in; and how far it has been read."""

from __future__ import annotations

import codecs
import gzip
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Packing = Literal["gzip", "zstd"]

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BUFFER = 1 << 18


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file."""

    stream: io.BufferedReader
    raw: io.FileIO
    size: int
    """Bytes on the disk, at least 1."""

    def share(self) -> float:
        """How much of it has been read, 0 to 1."""
        return min(self.raw.tell() / self.size, 1.0)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        self.raw.close()


def packing(path: Path) -> Packing | None:
    """How the file is packed, by its first bytes."""
    with path.open("rb") as stream:
        head = stream.read(4)
    return "gzip" if head.startswith(_GZIP) else "zstd" if head == _ZSTD else None


def open_stream(path: Path, encoding: str = "utf-8", *, bom: bytes = b"") -> Opened:
    """Open a file as a stream of UTF-8 without its byte order mark.

    Reading a packed file that is damaged raises `OSError`, `EOFError` or `zlib.error`.
    """
    # the caller closes it: `Opened` is a context
    raw = io.FileIO(path)
    stream = _unpacked(raw, packing(path))
    if bom:
        stream.read(len(bom))
    if encoding not in ("utf-8", "utf-8-sig"):
        stream = io.BufferedReader(_Recoded(stream, encoding), _BUFFER)
    return Opened(stream, raw, max(path.stat().st_size, 1))


def _unpacked(raw: io.FileIO, how: Packing | None) -> io.BufferedReader:
    if how == "gzip":
        return io.BufferedReader(_Pulled(gzip.GzipFile(fileobj=io.BufferedReader(raw, _BUFFER))), _BUFFER)
    if how == "zstd":
        import pyarrow

        inner = pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), "zstd")
        return io.BufferedReader(_Pulled(inner), _BUFFER)
    return io.BufferedReader(raw, _BUFFER)


class _Pulled(io.RawIOBase):
    """Anything with `read` as a raw stream."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        found = self._inner.read(len(target))
        target[: len(found)] = found
        return len(found)


class _Recoded(io.RawIOBase):
    """Another encoding, read as UTF-8; what does not belong to it becomes U+FFFD."""

    def __init__(self, inner: io.BufferedIOBase, encoding: str) -> None:
        self._inner = inner
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready:
            block = self._inner.read(_BUFFER)
            self._ready = self._decoder.decode(block, final=not block).encode("utf-8", "replace")
            if not block:
                break
        found, self._ready = self._ready[: len(target)], self._ready[len(target) :]
        target[: len(found)] = found
        return len(found)
