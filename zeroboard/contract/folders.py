"""What is known of a folder that a run would write into; measured by `monitor`, judged by `planning` and `zero`."""

from __future__ import annotations

from zeroboard.contract.base import Record


class FolderFacts(Record):
    """A folder that somebody named, or the nearest one above it that is there."""

    path: str
    """As it was named, made absolute."""
    exists: bool
    """There, and a folder."""
    writable: bool = False
    filesystem: str | None = None
    """Its type (`ext4`, `tmpfs` …); None: not told."""
    direct: bool | None = None
    """Whether files there can be read and written past the page cache (`O_DIRECT`); None: not told."""
    free: int | None = None
    """Bytes; None: not told."""
