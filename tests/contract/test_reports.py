"""Reports: the worst check decides, and every problem has its sentence."""

from __future__ import annotations

from zeroboard.contract.host import HostFacts
from zeroboard.contract.reports import CHECK_NAMES, Check, DataProblem, DoctorCheck, DoctorReport, overall


def test_the_worst_check_decides_and_a_skipped_one_says_nothing() -> None:
    def checks(*verdicts: str) -> tuple[Check, ...]:
        return tuple(Check.model_validate({"name": "size", "verdict": v, "says": "x"}) for v in verdicts)

    assert overall(checks("pass", "skip")) == "pass"
    assert overall(checks("pass", "warn", "skip")) == "warn"
    assert overall(checks("warn", "fail", "pass")) == "fail"
    assert overall(()) == "pass"


def test_the_sentence_of_a_data_problem_is_that_of_its_code_unless_it_says_another() -> None:
    assert DataProblem(code="empty-output", severity="error", count=1).message_key == "data.empty-output"
    assert DataProblem(code="x", severity="error", count=1, says="data.y").message_key == "data.y"


def test_the_names_of_the_checks_are_these() -> None:
    assert len(set(CHECK_NAMES)) == len(CHECK_NAMES) == 19
    assert CHECK_NAMES[0] == "complete" and CHECK_NAMES[-1] == "effect"


def test_a_doctor_s_remedy_belongs_to_its_sentence() -> None:
    check = DoctorCheck(name="disk", verdict="warn", says="doctor.disk")
    assert check.remedy_key == "doctor.disk.remedy"
    host = HostFacts(hostname="h", cpu_count=1, memory_total=1, memory_available=1, disk_total=1, disk_free=1)
    report = DoctorReport(verdict="warn", checks=(check,), host=host)
    assert DoctorReport.model_validate_json(report.model_dump_json()) == report
