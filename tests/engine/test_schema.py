"""DeepSpeed's schema as DeepSpeed tells it; whoever asks is the real child process (the fixture)."""

from __future__ import annotations

import importlib.metadata

from zeroboard.contract.schema import Schema


def test_the_schema_is_that_of_the_installed_version(schema: Schema) -> None:
    assert schema.version == importlib.metadata.version("deepspeed")


def test_blocks_with_a_model_are_found_with_types_bounds_and_choices(schema: Schema) -> None:
    keys = schema.keys
    assert keys["zero_optimization"].strict and keys["zero_optimization.offload_param"].strict
    assert keys["zero_optimization.stage"].choices == ("0", "1", "2", "3")
    assert keys["zero_optimization.reduce_bucket_size"].gt == 0
    assert keys["zero_optimization.offload_optimizer.device"].choices == ("none", "cpu", "nvme")
    assert keys["zero_optimization.offload_optimizer.ratio"].le == 1
    assert keys["zero_optimization.stage3_prefetch_bucket_size"] == keys["zero_optimization.prefetch_bucket_size"]
    assert keys["csv_monitor.output_path"].kind == "text" and keys["csv_monitor"].strict


def test_keys_that_are_only_read_are_found_too(schema: Schema) -> None:
    assert {
        k: schema.keys[k].kind for k in ("train_batch_size", "gradient_clipping", "wall_clock_breakdown", "aio")
    } == {
        "train_batch_size": "integer",
        "gradient_clipping": "number",
        "wall_clock_breakdown": "switch",
        "aio": "object",
    }
    assert schema.keys["aio.block_size"].kind == "integer" and not schema.keys["aio"].strict


def test_what_is_old_or_gone_is_told(schema: Schema) -> None:
    assert schema.keys["zero_optimization.cpu_offload"].replaced_by == "offload_optimizer"
    assert "amp" in schema.removed and "amp" not in schema.keys


def test_optimizers_and_schedules_come_with_their_parameters(schema: Schema) -> None:
    assert {"adam", "adamw", "lamb"} <= set(schema.optimizers) and "SGD" in schema.torch_optimizers
    assert "adamw" in schema.host_optimizers and "lamb" not in schema.host_optimizers + schema.tested_optimizers
    assert {"lr", "betas", "eps", "weight_decay"} <= set(schema.optimizer_params["adamw"])
    assert schema.scheduler_needs["WarmupCosineLR"] == ("total_num_steps",)
