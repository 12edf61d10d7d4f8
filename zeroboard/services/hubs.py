"""The sites that models and data sets come from: what a repository holds, and from which addresses its files come.

Hugging Face's hub, and ModelScope, whose addresses were taken from its own client (`modelscope-hub` 0.5.1,
`_legacy_api.py` and `_download.py`). Both were only ever asked through a stand-in on loopback.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import httpx
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.hf_api import BlobLfsInfo, RepoSibling
from huggingface_hub.utils import build_hf_headers

from zeroboard.contract.hub import HubFetch
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.errors import Refused
from zeroboard.files import sha256_text, to_json
from zeroboard.planning.hub import COMMIT
from zeroboard.services.push import TOKEN

ENDPOINTS = {"hub": ("HF_ENDPOINT", "https://huggingface.co"), "ms": ("MODELSCOPE_ENDPOINT", "https://modelscope.cn")}
"""Site → the variable that names another address of it, and the usual one."""
TOKENS = {"hub": TOKEN, "ms": "MODELSCOPE_API_TOKEN"}
"""Site → the variable that may hold an access token."""
PATIENCE = 30.0
"""Seconds that a site has to answer what it is asked."""
PAGE = 200
"""Files of a data set that ModelScope tells at a time."""
MOST = 3000
"""ModelScope tells no more files of a model than these, and does not say that there are more."""
PAGES = 500
"""Pages after which a data set is no data set any more."""


class Site(Protocol):
    """What is asked of a site."""

    def look(self) -> tuple[str, list[RepoSibling]]:
        """The commit (40 hexadecimal digits) that the wanted revision is, and the files.

        Raises `Refused`, and what `httpx` and the hub's library raise.
        """

    def url(self, name: str, commit: str) -> str:
        """Where a file comes from."""

    def headers(self) -> dict[str, str]:
        """What is sent along."""


def site(asked: HubFetch) -> Site:
    """The site of a wish."""
    return HuggingFace(asked) if asked.site == "hub" else ModelScope(asked)


def endpoint(name: str) -> str:
    """The address of a site, as the environment has it."""
    variable, usual = ENDPOINTS[name]
    return (os.environ.get(variable) or usual).rstrip("/")


def problem(code: str, asked: HubFetch, variant: str | None = None, **params: Scalar) -> Problem:
    """A problem with the repository's name, its page, and the site that was asked."""
    home = endpoint(asked.site)
    kinds = {("hub", "model"): "", ("hub", "dataset"): "datasets/", ("ms", "model"): "models/"}
    page = f"{home}/{kinds.get((asked.site, asked.kind), 'datasets/')}{asked.repository}"
    names: dict[str, Scalar] = {
        "repository": asked.repository, "endpoint": home, "page": page, "prefix": f"{asked.site}:",
        "variable": ENDPOINTS[asked.site][0], "token": TOKENS[asked.site],
    }  # fmt: skip
    says = f"problem.{code}.{variant}" if variant else None
    field = "model.path" if asked.kind == "model" else "data.path"
    return Problem(code=code, field=field, says=says, params={**names, **params})


def absent(asked: HubFetch, variant: str, **params: Scalar) -> Problem:
    """What was named is not there."""
    return problem("model-missing" if asked.kind == "model" else "data-missing", asked, variant, **params)


class HuggingFace:
    """Hugging Face's hub, and what speaks its protocol."""

    def __init__(self, asked: HubFetch) -> None:
        self._asked = asked
        self._api = HfApi(endpoint=os.environ.get(ENDPOINTS["hub"][0]) or None, token=asked.token or False)

    def look(self) -> tuple[str, list[RepoSibling]]:
        asked = self._asked
        ask = self._api.model_info if asked.kind == "model" else self._api.dataset_info
        found = ask(asked.repository, revision=asked.revision, files_metadata=True)
        commit = found.sha or ""
        if not COMMIT.fullmatch(commit):
            raise ValueError(f"the hub names no commit, but {commit[:60]!r}")
        return commit, found.siblings or []

    def url(self, name: str, commit: str) -> str:
        asked = self._asked
        return hf_hub_url(asked.repository, name, repo_type=asked.kind, revision=commit, endpoint=self._api.endpoint)

    def headers(self) -> dict[str, str]:
        return build_hf_headers(token=self._asked.token or False)


class ModelScope:
    """ModelScope. It names no commit with its list of files, so the list itself, by hashes, stands for one."""

    def __init__(self, asked: HubFetch) -> None:
        self._asked = asked
        kind = "models" if asked.kind == "model" else "datasets"
        self._home = f"{endpoint('ms')}/api/v1/{kind}/{quote(asked.repository)}/repo"
        self._revision = asked.revision or "master"

    def look(self) -> tuple[str, list[RepoSibling]]:
        files = [one for one in self._listed() if one.rfilename]
        told = sorted((one.rfilename, one.lfs.sha256 if one.lfs else "", one.size) for one in files)
        return sha256_text(to_json(told, indent=None))[:40], files

    def url(self, name: str, commit: str) -> str:
        del commit  # what comes is compared with the hashes of the list
        return f"{self._home}?{urlencode({'Revision': self._revision, 'FilePath': name})}"

    def headers(self) -> dict[str, str]:
        token = self._asked.token
        return {"Authorization": f"Bearer {token}", "Cookie": f"m_session_id={token}"} if token else {}

    def _listed(self) -> Iterable[RepoSibling]:
        if self._asked.kind == "model":
            entries = self._ask("files", Recursive="True")
            if len(entries) >= MOST:
                raise Refused([problem("hub-failed", self._asked, "too-many", most=MOST)])
            return [_sibling(entry) for entry in entries]
        found: list[RepoSibling] = []
        before: list[Mapping[str, Any]] = []
        for number in range(1, PAGES + 1):
            entries = self._ask("tree", Recursive="True", PageNumber=number, PageSize=PAGE)
            if entries and entries == before:  # it does not turn the page, so nobody knows what else there is
                raise Refused([problem("hub-failed", self._asked, "too-many", most=len(entries))])
            found += [_sibling(entry) for entry in entries]
            if len(entries) < PAGE:
                return found
            before = entries
        raise Refused([problem("hub-failed", self._asked, "too-many", most=PAGES * PAGE)])

    def _ask(self, what: str, **more: str | int) -> list[Mapping[str, Any]]:
        answer = httpx.get(
            f"{self._home}/{what}", params={"Revision": self._revision, **more}, headers=self.headers(),
            timeout=PATIENCE, follow_redirects=True,
        )  # fmt: skip
        asked = self._asked
        if answer.status_code in (401, 403):
            raise Refused([problem("hub-gated", asked, "refused" if asked.token else None)])
        if answer.status_code == 404:
            variant = "hub-revision" if asked.revision else "hub-repository"
            raise Refused([absent(asked, variant, revision=asked.revision)])
        answer.raise_for_status()
        value = answer.json()
        data = value.get("Data") if isinstance(value, dict) and value.get("Code", 200) == 200 else None
        files = data.get("Files") if isinstance(data, dict) else data
        if not isinstance(files, list) or not all(isinstance(one, dict) for one in files):
            why = str(value.get("Message") if isinstance(value, dict) else value)[:200]
            raise Refused([problem("hub-failed", asked, why=why)])
        return files


def _sibling(entry: Mapping[str, Any]) -> RepoSibling:
    """A file of ModelScope's list as the hub's library has it; a folder has no name."""
    name, size, digest = entry.get("Path"), entry.get("Size"), entry.get("Sha256")
    known = int(size) if isinstance(size, int) else None
    if not isinstance(name, str) or entry.get("Type") == "tree":
        return RepoSibling(rfilename="")
    lfs = None
    if isinstance(digest, str) and digest and known is not None:
        lfs = BlobLfsInfo(size=known, sha256=digest.lower(), pointer_size=0)
    return RepoSibling(rfilename=name, size=known, lfs=lfs)
