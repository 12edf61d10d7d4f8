"""What was noticed and measured before a run failed, as far as it helps to explain the end."""

from __future__ import annotations

from zeroboard.contract.findings import Evidence, Finding
from zeroboard.contract.readings import Reading
from zeroboard.diagnosis.facts import RunFacts
from zeroboard.diagnosis.gpus import FULL, GIB, alert, foreign, memory, share, who
from zeroboard.diagnosis.remedies import remedies

READINGS = "readings.jsonl"
QUOTED = 500
"""Characters of a sample that are quoted as evidence."""
BEFORE = 120.0
"""Seconds before the end; what was measured earlier explains nothing."""

TESTIFIES: dict[str, tuple[str, ...]] = {
    "cuda-oom": ("gpu-foreign", "gpu-memory-full"),
    "collective-timeout": ("stalled", "gpu-throttled"),
    "killed-by-signal": ("stalled",),
    "gpu-lost": ("gpu-throttled",),
}
"""Root cause → what helps to explain it, the most telling first."""


def witnesses(root: Finding, facts: RunFacts) -> list[Finding]:
    """Further findings for a root cause; what was noticed goes before what is only read off the last samples."""
    if facts.state.state not in ("failed", "lost"):
        return []
    found = [known for code in TESTIFIES.get(root.code, ()) for known in facts.noticed if known.code == code]
    reading = _last(facts)
    if reading is not None and root.code == "cuda-oom":
        found += _of_gpus(reading, facts)
    if reading is not None and root.code == "killed-by-signal" and root.params.get("signal") == "SIGKILL":
        found += _of_host(reading, facts)
    told: dict[tuple[str, int | None], Finding] = {}
    for one in found:
        if one.severity != "info":
            told.setdefault((one.code, one.rank), one)
    return list(told.values())


def _last(facts: RunFacts) -> Reading | None:
    """The last sample that was taken shortly before the end."""
    end = facts.state.ended or facts.last_event
    before = [reading for reading in facts.readings if end is None or 0.0 <= end - reading.time <= BEFORE]
    return before[-1] if before else None


def _of_gpus(reading: Reading, facts: RunFacts) -> list[Finding]:
    """Others on the GPUs first, then GPUs that were full."""
    found = []
    for gpu in reading.gpus:
        if others := foreign(gpu, {}):
            made = alert("gpu-foreign", gpu, who(others, {}), gpus=facts.gpus, spec=facts.spec)
            found.append(_quoting(made, gpu.model_dump_json(include={"index", "processes"})))
    for gpu in reading.gpus:
        if (share(gpu) or 0.0) > FULL:
            made = alert("gpu-memory-full", gpu, memory(gpu), gpus=facts.gpus, spec=facts.spec)
            found.append(_quoting(made, gpu.model_dump_json(include={"index", "memory_used", "memory_total"})))
    return found


def _of_host(reading: Reading, facts: RunFacts) -> list[Finding]:
    used, total = reading.memory_used, reading.memory_total
    if used is None or not total or used / total <= FULL:
        return []
    made = Finding(
        code="host-oom",
        severity="warning",
        says="finding.host-oom.reading",
        params={
            "percent": round(100 * used / total),
            "used": round(used / GIB, 1),
            "total": round(total / GIB, 1),
        },
        remedies=remedies("host-oom", facts.spec),
    )
    return [_quoting(made, reading.model_dump_json(include={"memory_used", "memory_total"}))]


def _quoting(finding: Finding, text: str) -> Finding:
    return finding.model_copy(update={"evidence": Evidence(file=READINGS, line=None, text=text[:QUOTED])})
