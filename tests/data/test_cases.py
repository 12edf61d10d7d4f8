"""Files that went wrong for somebody; the folder with them is not part of the project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zeroboard.data.judge import judge

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "data"

FIRST_FORM = (
    "A01-bom-json", "A02-one-broken-character", "A03-array-named-jsonl-pretty", "A03-comment-line", "A03-cut-last-line",
    "A03-jsonl-named-json", "A03-two-broken-lines", "A04-crlf-jsonl", "A04-line-separator-in-a-string",
    "A05-misspelt-key", "A05-three-empty-outputs", "A06-nine-of-ten-empty", "A07-role-aliases", "A07-unknown-role",
    "A08-empty-answer-turn", "A08-empty-conversation", "A08-ends-with-user", "A08-same-role-twice",
    "A08-starts-with-assistant", "A09-system-turns-sharegpt", "A10-image-part", "A10-text-parts",
    "A12-side-field-changes-type", "A20-array-named-txt", "PD01-alpaca-clean", "PD02-sharegpt-clean",
    "PD03-messages-clean", "PD04-prompt-completion-clean", "PD08-single-object",
)  # fmt: skip
"""Cases whose counts the first form of the reader has to get right."""


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not on this machine")
@pytest.mark.parametrize("name", FIRST_FORM)
def test_the_counts_of_a_known_case_are_right(name: str) -> None:
    folder = CASES / name
    expected = json.loads((folder / "expected.json").read_text())
    report = judge(Path(expected["command"][1].replace("{case}", str(folder))))
    counts = {"total": report.total, "usable": report.usable, "refused": report.refused, "changed": report.changed}
    for key, wanted in expected["expect"]["rows"].items():
        if isinstance(wanted, int):
            assert counts[key] == wanted, key
    assert report.format == expected["expect"].get("format", report.format)
    found = {problem.code: problem for problem in report.problems}
    wanted_problems = expected["expect"].get("problems", [])
    for wanted in wanted_problems if isinstance(wanted_problems, list) else []:
        assert found[wanted["code"]].count == wanted.get("count", found[wanted["code"]].count)
        assert set(wanted.get("rows", ())) <= set(found[wanted["code"]].rows)
