"""A brought file in a spec: its values, the bounds of the spec, the folder that it swaps to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.planning import facts as make
from zeroboard.errors import NotFound, Refused
from zeroboard.paths import Paths
from zeroboard.services import configs, prepare


def written(folder: Path, zero: dict[str, Any], **top: Any) -> str:
    file = folder / "ds.json"
    file.write_text(json.dumps({"train_micro_batch_size_per_gpu": 3, "zero_optimization": zero, **top}))
    return str(file)


def test_a_files_values_go_into_the_spec_and_the_rest_stays(schema_cache: Path, tmp_path: Path) -> None:
    before = prepare.default_spec()
    file = written(tmp_path, {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True, "sub_group_size": 1e6})
    spec, told = configs.spec_with(Paths(schema_cache), before, file, host=make.host())
    assert (spec.zero.stage, spec.zero.sub_group_size, spec.train.micro_batch) == ("3", 10**6, 3)
    assert spec.train.accumulation == before.train.accumulation and spec.data == before.data
    assert [p.code for p in told] == []


def test_the_train_batch_is_split_over_the_ranks_of_this_machine(schema_cache: Path, tmp_path: Path) -> None:
    file = written(tmp_path, {"stage": 2}, train_batch_size=24)
    spec, _ = configs.spec_with(Paths(schema_cache), prepare.default_spec(), file, host=make.host(4))
    assert (spec.train.micro_batch, spec.train.accumulation) == (3, 2)
    with pytest.raises(Refused) as refused:
        configs.spec_with(Paths(schema_cache), prepare.default_spec(), file, host=make.host(5))
    assert {p.code for p in refused.value.problems} == {"batch-mismatch"}


@pytest.mark.parametrize(
    ("zero", "top", "code"),
    [
        ({"stage": 9}, {}, "value-range"),
        ({"stage": 2, "zero_hpz_partition_size": 2}, {}, "ignored-choice"),
        ({"stage": 2}, {"gradient_clipping": 5000}, "value-range"),  # DeepSpeed takes it, a run's own bound does not
        ({"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/no/such"}}, {}, "nvme-path"),
    ],
)
def test_what_cannot_be_taken_over_is_refused(
    zero: dict[str, Any], top: dict[str, Any], code: str, schema_cache: Path, tmp_path: Path
) -> None:
    with pytest.raises(Refused) as refused:
        configs.spec_with(Paths(schema_cache), prepare.default_spec(), written(tmp_path, zero, **top), host=make.host())
    assert code in {p.code for p in refused.value.problems}


def test_a_file_that_is_not_there_is_wrong_usage(schema_cache: Path) -> None:
    with pytest.raises(NotFound):
        configs.spec_with(Paths(schema_cache), prepare.default_spec(), "/no/such.json", host=make.host())


def test_a_large_file_is_not_read(schema_cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    with file.open("wb") as stream:
        stream.truncate(50 << 20)
    judged = configs.judge_config(Paths(schema_cache), str(file))
    assert judged.config is None and [p.says for p in judged.problems] == ["problem.not-json.file-too-large"]
