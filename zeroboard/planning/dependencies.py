"""The versions that ZeroBoard works with, and the pairs that are known to fail.

Sources: the advisories and the trials of each package as they stood when the bounds were set; `pyproject.toml` installs
nothing outside of them, and a test holds the two together. Covered: what is installed, by its version. Not covered:
what a package of its own wants of others; `pip check` tells that (`services.toolchain`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from zeroboard.contract.problems import Problem, Severity
from zeroboard.contract.spec import RunSpec

NEEDED = ("torch", "transformers", "peft", "accelerate", "safetensors")
"""Without these nothing trains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Versions of one package."""

    package: str
    versions: str
    severity: Severity
    why: str
    """Last part of the sentence's key."""


BOUNDS = (
    Bound(package="torch", versions=">=2.10", severity="error", why="unsafe"),
    Bound(package="transformers", versions=">=5.23", severity="error", why="unsafe"),
    Bound(package="peft", versions=">=0.19", severity="error", why="old"),
    Bound(package="accelerate", versions=">=1.10", severity="error", why="old"),
    Bound(package="safetensors", versions=">=0.6", severity="warning", why="old"),
    Bound(package="gradio", versions=">=6.24,<6.27", severity="warning", why="page"),
)
"""Checked for every plan. `unsafe`: older ones have published holes in how checkpoints are read; `page`: only the page
is concerned (6.27 to 6.32 let a forged Host in past the password)."""
DEEPSPEED = Bound(package="deepspeed", versions=">=0.19", severity="error", why="unsafe")
"""Checked where a stage needs it."""
CRASHES = SpecifierSet("==0.19.2")
"""DeepSpeed that crashes at stage 3 with LoRA and activation checkpointing."""
WRONG_NVML = "pynvml"
"""A package that puts an old module over that of `nvidia-ml-py`."""


def dependencies(packages: Mapping[str, str], spec: RunSpec | None = None) -> list[Problem]:
    """What is missing, too old, too new, or fails together; for a spec, or (None) for the machine as a whole.

    No package at all means that nobody has looked.
    """
    if not packages:
        return []
    zero = spec is None or spec.zero.stage != "none"
    needed = (*NEEDED, DEEPSPEED.package) if zero else NEEDED
    found = [Problem(code="dependency-missing", params={"package": name}) for name in needed if name not in packages]
    for bound in (*BOUNDS, DEEPSPEED) if zero else BOUNDS:
        version = packages.get(bound.package)
        if version is not None and not within(version, bound.versions):
            found.append(_version(bound.why, bound.package, version, bound.versions, bound.severity))
    if WRONG_NVML in packages:
        found.append(_version("pynvml", WRONG_NVML, packages[WRONG_NVML], "", "warning"))
    if spec is not None:
        found += _pairs(packages, spec)
    return found


def requirements() -> tuple[str, ...]:
    """What ZeroBoard asks of pip for these packages, `torch>=2.10` …"""
    return tuple(f"{bound.package}{bound.versions}" for bound in (*BOUNDS, DEEPSPEED))


def _pairs(packages: Mapping[str, str], spec: RunSpec) -> list[Problem]:
    """Versions that fail with what is asked."""
    version = packages.get(DEEPSPEED.package, "")
    crashes = spec.zero.stage == "3" and spec.method.kind == "lora" and spec.train.activation_checkpointing
    if crashes and version and within(version, str(CRASHES)):
        return [_version("crashes", DEEPSPEED.package, version, "!=0.19.2", "error")]
    return []


def within(version: str, bounds: str) -> bool:
    """Whether a version lies in a range; one that is not written as versions are (built by hand) is let pass.

    A local part (`2.13.0+cpu`) and a pre-release count as the version that they belong to.
    """
    try:
        return Version(version).base_version in SpecifierSet(bounds)
    except InvalidVersion:
        return True


def _version(why: str, package: str, version: str, wanted: str, severity: Severity) -> Problem:
    params = {"package": package, "version": version, "wanted": wanted}
    return Problem(
        code="dependency-version", severity=severity, says=f"problem.dependency-version.{why}", params=params
    )
