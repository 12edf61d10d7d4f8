"""Files of somebody's folder that travel into one that is made of it: tokenizer, settings, licences.

A folder from elsewhere may hold links, and what is delivered may be sent to a hub. So a link is followed within its
folder, into the cache of the hub's own library, which is made of links, and, for settings and tokenizer of what stays
here, to the file of the same name in another model's folder, as where a cluster keeps models once for all; one that
leads anywhere else would take a private file along. Weights are not copied but read as safetensors, and may lie
anywhere.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from zeroboard.checkpoints.findings import printable
from zeroboard.checkpoints.folder import Folder
from zeroboard.checkpoints.inspect import ADAPTER_CONFIG, CONFIG
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.errors import Refused
from zeroboard.modelfiles import GENERATION, TOKEN_FILES

TRAVEL = (CONFIG, ADAPTER_CONFIG, GENERATION, *TOKEN_FILES)
"""What of a folder goes on into what is made of it, beside its weights and licences."""


def leads_out(folder: Folder, name: str, *, published: bool = False) -> bool:
    """Whether a file of the folder is a link to what lies outside and may be private; `published`: to any outside."""
    try:
        file = (folder.path / name).resolve(strict=True)
        home = folder.path.resolve(strict=True)
    except (OSError, RuntimeError):  # gone meanwhile, or a circle
        return True
    in_hub_cache = file.parent.name == "blobs" and file.parent.parent.name.startswith("models--")
    if file.is_relative_to(home) or in_hub_cache:
        return False
    return published or not (name in TRAVEL and file.name == name and file.is_file() and _of_a_model(file.parent))


def _of_a_model(place: Path) -> bool:
    """Whether a folder's settings say that it holds a model or an adapter; settings of other programs say neither."""
    for name, key in ((CONFIG, "model_type"), (ADAPTER_CONFIG, "peft_type")):
        try:
            size = (place / name).stat().st_size
        except OSError:
            continue
        value = Folder(place, {name: size}).json(name).value
        if value is not None and isinstance(value.get(key), str):
            return True
    return False


def judge_links(folder: Folder, *, published: bool = False) -> list[Problem]:
    """Each file that would be copied, or read and written anew, and is a link that leads out (see `leads_out`)."""
    there = (name for name in TRAVEL if name in folder.files)
    return [_problem(folder, name) for name in there if leads_out(folder, name, published=published)]


def take_along(folder: Folder, name: str, target: Path) -> None:
    """Copy a file of the folder under its own name. Raises `Refused` for a link that leads out."""
    if leads_out(folder, name):
        raise Refused([_problem(folder, name)])
    shutil.copyfile(folder.path / name, target / name)


def _problem(folder: Folder, name: str) -> Problem:
    params: dict[str, Scalar] = {"file": printable(name), "path": printable(str(folder.path))}
    return Problem(code="model-unsupported", says="export.link-out", params=params)
