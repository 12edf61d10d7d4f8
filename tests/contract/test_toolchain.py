"""What torch and DeepSpeed said is read back as it was, also from a newer version."""

from __future__ import annotations

from zeroboard.contract.toolchain import OpFacts, Toolchain


def test_an_answer_reads_back_from_its_own_json_and_unknown_keys_are_let_pass() -> None:
    op = OpFacts(compatible=False, why="CUDA_HOME")
    told = Toolchain(torch="2.13.0", cuda="13.0", architectures=("sm_90", "compute_90"), ops={"cpu_adam": op})
    assert Toolchain.model_validate_json(told.model_dump_json()) == told
    assert Toolchain.model_validate({"torch": "1", "new": 1}) == Toolchain(torch="1")
