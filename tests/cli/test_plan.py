"""`zeroboard plan --render`: the same plan for another launcher, on standard output alone."""

from __future__ import annotations

from typing import Any

from tests.cli.test_cli import zeroboard  # noqa: F401  (a fixture)


def test_a_plan_is_printed_for_another_launcher(zeroboard: Any) -> None:  # noqa: F811
    ran = zeroboard("plan", "demo", "--render", "slurm")
    assert ran.code == 0 and "#SBATCH --nodes=1" in ran.out and "--write" in ran.err
    several = ("--set", "devices.nodes=2", "--set", "devices.rendezvous=127.0.0.1:29400")
    made = zeroboard("plan", "demo", *several, "--render", "nodes", "--json").json
    assert made["render"]["launcher"] == "nodes" and len(made["render"]["steps"]) == 3
    assert "--nnodes 2" in made["render"]["steps"][1]["text"] and made["batch"]["gpus"] % 2 == 0


def test_several_nodes_that_are_one_are_wrong_usage_and_a_plan_with_errors_prints_none(zeroboard: Any) -> None:  # noqa: F811
    assert zeroboard("plan", "demo", "--render", "nodes").code == 2
    bad = zeroboard("plan", "demo", "--set", "zero.offload=all", "--render", "slurm", "--json")
    assert bad.code == 1 and "render" not in bad.json
