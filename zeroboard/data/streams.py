"""A file as a stream of UTF-8, whatever it is packed in and written in; and how far it has been read."""

from __future__ import annotations

import codecs
import gzip
import io
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from zeroboard.data.records import OnProgress

Packing = Literal["gzip", "zstd"]

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BUFFER = 1 << 18


def packing(path: Path) -> Packing | None:
    """How the file is packed, by its first bytes."""
    with path.open("rb") as stream:
        head = stream.read(4)
    return "gzip" if head.startswith(_GZIP) else "zstd" if head == _ZSTD else None


@contextmanager
def open_stream(
    path: Path, encoding: str = "utf-8", *, bom: bytes = b"", on_progress: OnProgress | None = None
) -> Generator[io.BufferedReader, None, None]:
    """Open a file as a stream of UTF-8 without its byte order mark.

    Reading a packed file that is damaged raises `OSError`, `EOFError` or `zlib.error`.
    """
    with _Told(path, on_progress) as raw:
        stream = _unpacked(raw, packing(path))
        if bom:
            stream.read(len(bom))
        if encoding not in ("utf-8", "utf-8-sig"):
            stream = io.BufferedReader(_Recoded(stream, encoding), _BUFFER)
        with stream:
            yield stream


class _Told(io.FileIO):
    """A file that tells how far it has been read."""

    def __init__(self, path: Path, on_progress: OnProgress | None) -> None:
        super().__init__(path)
        self._size = max(path.stat().st_size, 1)
        self._on_progress = on_progress

    def readinto(self, target: Any) -> int | None:
        found = super().readinto(target)
        if self._on_progress is not None:
            self._on_progress(min(self.tell() / self._size, 1.0))
        return found


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
