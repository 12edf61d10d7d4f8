"""Problems are values; their sentences are found by key."""

from __future__ import annotations

from zeroboard.contract.problems import Problem, errors, problem


def test_the_sentence_is_that_of_the_code_unless_the_problem_says_another() -> None:
    plain = Problem(code="gpu-busy")
    assert (plain.message_key, plain.remedy_key) == ("problem.gpu-busy", "problem.gpu-busy.remedy")
    other = Problem(code="model-missing", says="header.cut")
    assert (other.message_key, other.remedy_key) == ("header.cut", "header.cut.remedy")


def test_only_errors_refuse() -> None:
    found = [Problem(code="a"), Problem(code="b", severity="warning"), Problem(code="c", severity="info")]
    assert [one.code for one in errors(found)] == ["a"] and errors([]) == ()


def test_a_problem_is_in_no_language_and_comes_back_from_its_json() -> None:
    known = Problem(code="a", field="zero.stage", params={"x": 1}, set={"zero.stage": "2"})
    assert Problem.model_validate_json(known.model_dump_json()) == known


def test_a_rule_names_a_code_or_a_variant_of_it() -> None:
    assert problem("disk-space", "output.path").message_key == "problem.disk-space"
    other = problem("disk-space", None, "quota", severity="warning", mend={"train.keep_checkpoints": 1})
    assert other.message_key == "problem.disk-space.quota" and other.set == {"train.keep_checkpoints": 1}
