"""The process that fetches a model, or files of a data set, from the hub: `python -m zeroboard.services download FILE`.

It reads one `HubFetch` from standard input and tells FILE (`HubTold`) how far it is. The files grow in a hidden folder
beside their place, each goes on where it was cut, and the folder takes its name when every file is there and checked.

Covered: safetensors, JSON, tokenizer, template and licence files; Python files only where they are wanted; never
pickles; of a data set the files of its training split (`planning.splits`), or those that were named. Not covered: a
single file above 50 GB, which the hub gives by its own protocol alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

import httpx
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import http_get
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import disable_progress_bars

from zeroboard.contract.hub import MANIFEST, HubFetch, HubFile, HubManifest, HubTold
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.data.excerpts import harmless
from zeroboard.errors import Refused
from zeroboard.files import place, sha256_file, share, write_atomic
from zeroboard.planning.hub import folder_name, read_manifest
from zeroboard.planning.splits import choose
from zeroboard.services.hubs import Site, absent, problem, site
from zeroboard.services.push import REFUSED

CARD, CARD_MOST = "README.md", 1 << 20
"""The card of a data set, and the bytes up to which it is read: it may say which files are meant."""
NAMES_SHOWN = 12
"""Files of a data set that are listed to choose from."""
TEXTS = ("*.json", "*.jinja", "*.model", "*.tiktoken", "*.txt", "README.md", "LICENSE*", "NOTICE*", "USE_POLICY*")
"""Files of the top folder that are taken, besides weights."""
NESTED = "additional_chat_templates/*.jinja"
WEIGHTS = ".safetensors"
RESERVE = 256 << 20
"""Bytes that stay free on the disk."""
GROWING = ".incomplete"
WORKERS = 4
"""Files that come at the same time."""


def main(told: Path) -> int:
    """Fetch; returns the exit code."""
    asked = HubFetch.model_validate_json(sys.stdin.readline())
    disable_progress_bars()
    try:
        folder = fetch(asked, told)
    except (HfHubHTTPError, httpx.HTTPError, OSError, ValueError, Refused) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        sys.stderr.write((words.replace(asked.token, "…") if asked.token else words) + "\n")
        tell(told, HubTold(problem=reason(error, asked)))
        return REFUSED
    tell(told, HubTold(folder=str(folder)))
    return 0


def tell(told: Path, words: HubTold) -> None:
    """Replace what stands in the file."""
    write_atomic(told, words.model_dump_json())


def fetch(asked: HubFetch, told: Path) -> Path:
    """The folder, whole. Raises what the hub's library does, `OSError`, and `Refused`."""
    hub = site(asked)
    commit, siblings = hub.look()
    root, name = Path(asked.root), folder_name(asked.repository, commit, asked.file, asked.site)
    target, partial = root / name, root / f".part-{name}"
    root.mkdir(parents=True, exist_ok=True)
    locks = Path(asked.lock)
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / f"hub-{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Refused([problem("hub-busy", asked)]) from error
        known = read_manifest(target)
        if known is None or (asked.code and not known.code):
            there = {file.name for file in known.files} if known is not None else set()
            meant = chosen(siblings, asked) if asked.kind == "model" else split(hub, siblings, asked, commit)
            wanted = [one for one in meant if one.rfilename not in there]
            get(hub, asked, commit, wanted, partial, told)
            files = tuple(
                sorted((*(known.files if known else ()), *check(partial, wanted)), key=lambda file: file.name)
            )
            revisions = known.revisions if known is not None else {}
            known = HubManifest(
                site=asked.site, kind=asked.kind, repository=asked.repository, commit=commit, revisions=revisions,
                code=asked.code, file=asked.file, files=files,
            )  # fmt: skip
            land(partial, target, known)
        note(target, known, asked.revision)
    return target


def chosen(siblings: list[RepoSibling], asked: HubFetch) -> list[RepoSibling]:
    """The files that are fetched. Raises `Refused` where there are no weights that can be opened safely."""
    safe = [one for one in siblings if _safe(one.rfilename)]
    weights = [one for one in safe if one.rfilename.endswith(WEIGHTS) and "/" not in one.rfilename]
    # beside the usual names some repositories keep the same weights once more, in their maker's own layout
    usual = [one for one in weights if one.rfilename.startswith("model")]
    texts = [one for one in safe if _text(one.rfilename) or (asked.code and one.rfilename.endswith(".py"))]
    if not weights:
        raise Refused([problem("model-missing", asked, "hub-weights")])
    return [*texts, *(usual or weights)]


def split(hub: Site, siblings: list[RepoSibling], asked: HubFetch, commit: str) -> list[RepoSibling]:
    """The files of a data set that are fetched. Raises `Refused` where nothing says which those are."""
    by_name = {one.rfilename: one for one in siblings if _safe(one.rfilename)}
    card = by_name.get(CARD)
    words = b""
    if card is not None and not asked.file and (card.size or 0) <= CARD_MOST:
        words = _card(hub, commit)
    found = choose(by_name, asked.file, words.decode("utf-8", "replace"))
    if found.why is not None:
        names = ", ".join(map(harmless, found.shown[:NAMES_SHOWN])) + (" …" if len(found.shown) > NAMES_SHOWN else "")
        params: dict[str, Scalar] = {"files": names or "-", "count": len(found.shown), "file": asked.file}
        raise Refused([problem("data-missing", asked, f"hub-files-{found.why}", **params)])
    return [by_name[name] for name in found.files]


class _Card(io.BytesIO):
    """Takes no more than a card may hold, whatever its site said of its size."""

    def write(self, block: Any, /) -> int:
        if self.tell() + len(block) > CARD_MOST:
            raise _TooLargeError
        return super().write(block)


class _TooLargeError(Exception):
    pass


def _card(hub: Site, commit: str) -> bytes:
    """The card of a data set; empty where it is too large to be one."""
    words = _Card()
    try:
        http_get(hub.url(CARD, commit), words, headers=hub.headers())
    except _TooLargeError:
        return b""
    return words.getvalue()


def _safe(name: str) -> bool:
    """Whether a name stays within its folder and is none of ours."""
    path = PurePosixPath(name)
    strange = path.is_absolute() or any(part == ".." or part.startswith(".") for part in path.parts)
    return not strange and name != MANIFEST and "\\" not in name


def _text(name: str) -> bool:
    if "/" in name:
        return fnmatchcase(name, NESTED)
    return any(fnmatchcase(name, pattern) for pattern in TEXTS)


def get(hub: Site, asked: HubFetch, commit: str, wanted: list[RepoSibling], partial: Path, told: Path) -> None:
    """Let the files come. Raises `Refused` where the disk is too small for what is still missing."""
    total = sum(one.size or 0 for one in wanted)
    missing = total - sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())
    if missing + RESERVE > asked.free:
        params: dict[str, Scalar] = {"need": _size(missing + RESERVE), "free": _size(asked.free), "path": asked.root}
        raise Refused([problem("disk-space", asked, "fetch", **params)])
    tell(told, HubTold(partial=str(partial), total=total))
    with ThreadPoolExecutor(WORKERS) as workers:
        work = [workers.submit(one_file, hub, commit, one, partial) for one in wanted]
        try:
            for future in work:
                future.result()
        finally:
            workers.shutdown(cancel_futures=True)


def one_file(hub: Site, commit: str, one: RepoSibling, partial: Path) -> None:
    """Let a file come. A large one goes on where it was cut; the hub's library itself keeps no part of one."""
    path = partial / one.rfilename
    if path.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    growing = path.with_name(path.name + GROWING)
    with growing.open("ab" if one.lfs is not None else "wb") as stream:
        if one.size is not None and stream.tell() > one.size:
            stream.truncate(0)
        url = hub.url(one.rfilename, commit)
        http_get(url, stream, resume_size=stream.tell(), headers=hub.headers(), expected_size=one.size)
        stream.flush()
        os.fsync(stream.fileno())
    growing.replace(path)


def check(partial: Path, wanted: list[RepoSibling]) -> list[HubFile]:
    """Every file is what the hub said it would be. Raises `Refused`; then what is wrong is gone, to come anew."""
    found, wrong = [], []
    for one in wanted:
        path = partial / one.rfilename
        size, digest = path.stat().st_size, sha256_file(path)
        if one.lfs is not None:
            good = (size, digest) == (one.lfs.size, one.lfs.sha256)
        else:
            good = one.size in (None, size) and one.blob_id in (None, _blob(path))
        if good:
            found.append(HubFile(name=one.rfilename, size=size, sha256=digest))
        else:
            path.unlink()
            wrong.append(one.rfilename)
    if wrong:
        says = "problem.hub-failed.damaged"
        raise Refused([Problem(code="hub-failed", says=says, params={"file": wrong[0], "count": len(wrong)})])
    return found


def _blob(path: Path) -> str:
    """The name that git gives a small file by its content."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def land(partial: Path, target: Path, manifest: HubManifest) -> None:
    """The folder takes its name; where it is there already and only lacked files, they move in, the manifest last."""
    share(partial)
    if read_manifest(target) is None:
        write_atomic(partial / MANIFEST, manifest.model_dump_json(indent=2))
        if not place(partial, target):
            raise FileExistsError(f"{target} is in the way, and did not come from the hub")
        return
    for file in sorted(path for path in partial.rglob("*") if path.is_file()):
        goal = target / file.relative_to(partial)
        goal.parent.mkdir(parents=True, exist_ok=True)
        file.replace(goal)
    shutil.rmtree(partial)
    write_atomic(target / MANIFEST, manifest.model_dump_json(indent=2))


def note(target: Path, manifest: HubManifest, revision: str | None) -> None:
    """Remember that this name led here just now."""
    revisions = {**manifest.revisions, revision or "": time.time()}
    write_atomic(target / MANIFEST, manifest.model_copy(update={"revisions": revisions}).model_dump_json(indent=2))


def reason(error: Exception, asked: HubFetch) -> Problem:
    """Why it did not come, in our words where the cause is known."""
    if isinstance(error, Refused):
        return error.problems[0]
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
    if isinstance(error, GatedRepoError):
        return problem("hub-gated", asked, "refused" if asked.token else None)
    if isinstance(error, RevisionNotFoundError):
        return absent(asked, "hub-revision", revision=asked.revision)
    if isinstance(error, RepositoryNotFoundError):
        return absent(asked, "hub-repository")
    if status in (401, 403):
        return problem("hub-gated", asked, "refused" if asked.token else None)
    why = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, httpx.TransportError):
        return problem("hub-unreachable", asked, why=why)
    return problem("hub-failed", asked, why=why.replace(asked.token, "…") if asked.token else why)


def _size(count: int) -> str:
    return f"{count / 2**30:.2f} GiB"
