"""Findings as values: they cross the disk whole."""

from __future__ import annotations

from zeroboard.contract.findings import FINDING_CODES, Diagnosis, Evidence, Finding, Remedy


def test_a_diagnosis_is_read_back_as_it_was() -> None:
    finding = Finding(
        code="cuda-oom",
        rank=3,
        evidence=Evidence(file="rank_3.log", line=7, text="CUDA out of memory"),
        says="finding.cuda-oom",
        remedies=(Remedy(says="remedy.offload", set={"zero.offload": "optimizer"}),),
    )
    made = Diagnosis(root="cuda-oom", findings=(finding,))
    assert Diagnosis.model_validate_json(made.model_dump_json()) == made


def test_no_code_is_there_twice() -> None:
    assert len(set(FINDING_CODES)) == len(FINDING_CODES) == 43
