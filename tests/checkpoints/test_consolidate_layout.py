"""What each parameter of a ZeRO checkpoint is made of, on layouts that can be worked out by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from zeroboard.checkpoints.consolidate_layout import ModelState, OptimState, Part, Plan, make_plan
from zeroboard.checkpoints.consolidate_names import name_tensors
from zeroboard.contract.problems import Problem
from zeroboard.errors import Refused
from zeroboard.messages import LANGUAGES, has, say

MODEL = ModelState(
    file="m0",
    groups=({"a": (5,), "b": (2, 3)}, {"c": (1,)}),
    frozen={},
    fragments={},
    whole={},
    buffers=frozenset(),
    shared={},
    world=2,
    step=7,
    version="0.19.8",
)
OPTIM = OptimState(file="o0", stage=2, counts=(2, 2), groups=(6, 1), paddings=None, step=7, version="0.19.8")
Change = Callable[..., Any]


def parts_of(plan: Plan) -> dict[str, list[tuple[int, int | str, int, int]]]:
    return {p.name: [(part.rank, part.key, part.start, part.count) for part in p.parts] for p in plan.parameters}


def two(*groups: tuple[int, ...], **changes: Any) -> list[OptimState]:
    return [dataclasses.replace(OPTIM, file=f"o{rank}", groups=found, **changes) for rank, found in enumerate(groups)]


def refused(models: list[ModelState], optim: list[OptimState], *, sharded: bool = False) -> list[Problem]:
    with pytest.raises(Refused) as error:
        make_plan(models, optim, sharded=sharded)
    for problem in error.value.problems:
        assert all(has(key, language) for key in (problem.message_key, problem.remedy_key) for language in LANGUAGES)
        assert "{" not in say(problem.message_key, **problem.params)
    return list(error.value.problems)


def test_stage_2_cuts_a_group_wherever_the_cut_falls() -> None:
    plan = make_plan([MODEL], two((6, 1), (5, 0)), sharded=False)
    assert parts_of(plan) == {
        "a": [(0, 0, 0, 5)],
        "b": [(0, 0, 5, 1), (1, 0, 0, 5)],
        "c": [(0, 1, 0, 1)],
    }
    assert (plan.stage, plan.world, plan.step, plan.version) == (2, 2, 7, "0.19.8")


def test_padding_between_parameters_and_at_the_end_is_left_out() -> None:
    plan = make_plan([MODEL], two((8, 2), (8, 2), paddings=((3, 0), (0,))), sharded=False)
    assert parts_of(plan)["b"] == [(1, 0, 0, 6)]
    plan = make_plan([MODEL], two((6, 2), (6, 2)), sharded=False)
    assert parts_of(plan)["b"] == [(0, 0, 5, 1), (1, 0, 0, 5)]


def test_stage_3_cuts_each_parameter_and_leaves_out_its_padding() -> None:
    ranks = [dataclasses.replace(MODEL, file=f"m{rank}") for rank in range(2)]
    plan = make_plan(ranks, two((3, 4), (3, 4), stage=3, counts=(2,)), sharded=True)
    # a: 3 + 2 of its 5 numbers; b begins after 3 numbers, which is in the second group
    assert parts_of(plan) == {
        "a": [(0, 0, 0, 3), (1, 0, 0, 2)],
        "b": [(0, 1, 0, 3), (1, 1, 0, 3)],
        "c": [(0, 1, 3, 1)],
    }


def test_more_ranks_than_numbers() -> None:
    ranks = [dataclasses.replace(MODEL, file=f"m{r}", groups=({"c": (1,), "d": (3,)},), world=4) for r in range(4)]
    optim = [dataclasses.replace(OPTIM, file=f"o{r}", stage=3, counts=(4,), groups=(2,)) for r in range(4)]
    assert parts_of(make_plan(ranks, optim, sharded=True)) == {
        "c": [(0, 0, 0, 1)],
        "d": [(0, 0, 1, 1), (1, 0, 1, 1), (2, 0, 1, 1)],
    }


def test_what_was_frozen_and_what_is_a_buffer_comes_too() -> None:
    model = dataclasses.replace(
        MODEL,
        frozen={"f": (3,)},
        fragments={"f": 3},
        whole={"a": (5,), "f": (3,), "lm": (5,), "frozen at stage 1": (2,), "buffer": (4,)},
        buffers=frozenset(["buffer"]),
        shared={"lm": "a"},
    )
    found = parts_of(make_plan([model], two((6, 1), (5, 0)), sharded=False))
    assert found["f"] == [(0, "f", 0, 3)]
    assert found["buffer"] == [(0, "buffer", 0, 4)] and found["frozen at stage 1"] == [(0, "frozen at stage 1", 0, 2)]
    assert "lm" not in found
    ranks = [dataclasses.replace(model, file=f"m{rank}", fragments={"f": 2}) for rank in range(2)]
    plan = make_plan(ranks, two((6, 1), (6, 1), stage=3, counts=(2,)), sharded=True)
    found = parts_of(plan)
    assert found["f"] == [(0, "f", 0, 2), (1, "f", 0, 1)] and "frozen at stage 1" not in found
    assert next(p for p in plan.parameters if p.name == "f").parts[0] == Part("fragment", 0, "f", 0, 2)


@pytest.mark.parametrize(
    ("change", "says", "named"),
    [
        ({"version": "0.14.0"}, "mixed.field", "ds_version"),
        ({"step": 8}, "mixed.field", "step"),
        ({"stage": 1}, "mixed.field", "zero_stage"),
        ({"counts": (4, 4)}, "mixed.field", "partition_count"),
        ({"counts": (2, 1)}, "unsupported.experts", "o1"),
        ({"groups": (5, 0, 1)}, "mixed.field", "groups"),
        ({"groups": (50, 0)}, "damaged.sizes", "param_shapes[0]"),
        ({"groups": (0, 0)}, "damaged.sizes", "param_shapes[0]"),
    ],
)
def test_states_that_do_not_belong_together_are_refused(change: dict[str, Any], says: str, named: str) -> None:
    optim = two((6, 1), (5, 0))
    optim[1] = dataclasses.replace(optim[1], **change)
    found = refused([MODEL], optim)
    assert any(p.says == f"problem.checkpoint-{says}" and named in map(str, p.params.values()) for p in found), found


@pytest.mark.parametrize(
    ("models", "optim", "sharded", "says"),
    [
        ([MODEL], two((6, 1)), False, "mixed.count"),
        ([MODEL], two((6, 1), (5, 0), stage=3, counts=(2,)), False, "mixed.stage"),
        ([MODEL], two((6, 1), (5, 0)), True, "mixed.stage"),
        ([MODEL], two((6, 1), (6, 1), stage=3, counts=(2,)), True, "mixed.count"),
        ([MODEL], two((6, 1), (5, 0), stage=4), False, "unsupported.stage"),
        ([MODEL, dataclasses.replace(MODEL, step=8)], two((6, 1), (6, 1), stage=3, counts=(2,)), True, "mixed.field"),
        ([MODEL, dataclasses.replace(MODEL, groups=())], two((6, 1), (6, 1), stage=3), True, "mixed.shapes"),
        ([MODEL] * 2, two((6, 1), (6, 2), stage=3, counts=(2,)), True, "damaged.sizes"),
        ([MODEL], two((6,), (5,)), False, "damaged.sizes"),
        ([MODEL], two((6, 1), (5, 0), paddings=((0,), (0,))), False, "damaged.sizes"),
        ([dataclasses.replace(MODEL, frozen={"f": (3,)})], two((6, 1), (5, 0)), False, "damaged.sizes"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(
    models: list[ModelState], optim: list[OptimState], sharded: bool, says: str
) -> None:
    assert f"problem.checkpoint-{says}" in [p.says for p in refused(models, optim, sharded=sharded)]


def test_all_that_disagrees_is_told_at_once() -> None:
    optim = two((6, 1), (5, 0))
    optim[1] = dataclasses.replace(optim[1], version="0.14.0", step=8)
    assert [p.params["field"] for p in refused([MODEL], optim)] == ["ds_version", "step"]


def test_a_shared_tensor_is_written_once_unless_the_config_says_that_nothing_is_tied() -> None:
    model = dataclasses.replace(MODEL, shared={"lm": "a"})
    plan = make_plan([model], two((6, 1), (5, 0)), sharded=False)
    assert set(name_tensors(plan, tied=True).tensors) == set(name_tensors(plan, tied=None).tensors) == {"a", "b", "c"}
    named = name_tensors(plan, tied=False)
    assert named.tensors["lm"] is named.tensors["a"] and not named.adapter


def test_several_adapters_are_refused() -> None:
    groups = ({"x.lora_A.one.weight": (2,), "x.lora_A.two.weight": (2,)},)
    plan = make_plan([dataclasses.replace(MODEL, groups=groups)], two((2,), (2,), counts=(2,)), sharded=False)
    with pytest.raises(Refused) as error:
        name_tensors(plan, tied=None)
    assert error.value.problems[0].params == {"names": "one, two"}
