"""What the verb `export` writes is what there was, in the type and files that were asked for."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.engine.results import letters_base, make_adapter, make_full
from tests.engine.zero_checkpoints import build
from tests.tiny import tiny_model
from zeroboard.checkpoints.folder import list_folder
from zeroboard.checkpoints.inspect import source_kind
from zeroboard.checkpoints.verify import verify_files
from zeroboard.contract.requests import CompareRequest, ExportRequest
from zeroboard.engine import export as verb
from zeroboard.engine import verify
from zeroboard.engine.compare import compare
from zeroboard.errors import Refused


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, tiny_model_folder: Path) -> Path:
    return make_full(tmp_path_factory.mktemp("full") / "model", tiny_model_folder)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory, tiny_model_folder: Path) -> Path:
    return make_adapter(tmp_path_factory.mktemp("adapter") / "adapter", tiny_model_folder)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for file in folder.glob("*.safetensors"):
        found |= load_file(file)
    return found


def test_a_model_is_written_in_another_type_and_in_files_of_the_size_asked_for(full: Path, tmp_path: Path) -> None:
    (full / "LICENSE").write_text("as you like")
    told: list[float] = []
    target = tmp_path / "名 字"
    request = ExportRequest(path=str(full), target=str(target), dtype="bf16", shard_bytes=100_000)
    written = verb.export(request, lambda done, says, params: told.append(done))
    assert len(list(target.glob("*.safetensors"))) > 2 and (target / "model.safetensors.index.json").is_file()
    before, after = weights(full), weights(target)
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor.to(torch.bfloat16), rtol=0, atol=0)
    assert json.loads((target / "config.json").read_text())["dtype"] == "bfloat16"
    assert (target / "LICENSE").read_text() == "as you like"
    assert all(check.verdict in ("pass", "skip") for check in verify_files(target).checks)
    assert told == sorted(told) and told[-1] == 1.0
    assert (written.kind, written.template, written.system) == ("full-model", "chatml", None)
    assert written.stops == ("<|im_end|>",)


def test_an_adapter_stays_one_with_its_tokenizer_and_end_tokens(adapter: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    written = verb.export(ExportRequest(path=str(adapter), target=str(target)))
    assert written.kind == "lora-adapter"
    assert (target / "adapter_model.safetensors").is_file()
    for name, tensor in weights(adapter).items():
        torch.testing.assert_close(weights(target)[name], tensor, rtol=0, atol=0)
    tokenizer = AutoTokenizer.from_pretrained(target)
    assert json.loads((target / "generation_config.json").read_text())["eos_token_id"] == tokenizer.eos_token_id


def test_every_end_token_is_kept_and_a_missing_template_is_written_out(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "plain", template=None)
    (model / "generation_config.json").write_text('{"eos_token_id": 0, "temperature": 0.7, "do_sample": true}')
    target = tmp_path / "out"
    written = verb.export(ExportRequest(path=str(model), target=str(target)))
    settings = json.loads((target / "generation_config.json").read_text())
    end = AutoTokenizer.from_pretrained(target).convert_tokens_to_ids("<|im_end|>")
    assert (settings["eos_token_id"], settings["temperature"]) == ([0, end], 0.7)
    assert "<|im_start|>" in (target / "chat_template.jinja").read_text()
    assert written.template == "chatml"


def test_a_system_turn_that_the_template_writes_by_itself_is_known(tmp_path: Path) -> None:
    template = (
        "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}"
        "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    model = tiny_model(tmp_path / "kind", template=template)
    written = verb.export(ExportRequest(path=str(model), target=str(tmp_path / "out")))
    assert (written.template, written.system) == ("chatml", "Be kind.")
    other = tiny_model(tmp_path / "other", template="{% for m in messages %}[{{ m['content'] }}]{% endfor %}")
    assert verb.export(ExportRequest(path=str(other), target=str(tmp_path / "out2"))).template == "other"


def test_what_cannot_be_delivered_is_refused_and_nothing_is_left(full: Path, tmp_path: Path) -> None:
    quantised = tmp_path / "quantised"
    shutil.copytree(full, quantised)
    config = json.loads((quantised / "config.json").read_text())
    (quantised / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "x"}}))
    cut = tmp_path / "cut"
    shutil.copytree(full, cut)
    (cut / "model.safetensors").write_bytes((full / "model.safetensors").read_bytes()[:-100])
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, dtype in ((quantised, "fp16"), (cut, None), (empty, None)):
        with pytest.raises(Refused):
            verb.export(ExportRequest(path=str(path), target=str(tmp_path / "out"), dtype=dtype))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["cut", "empty", "quantised"]


def test_a_folder_from_elsewhere_takes_no_private_file_along(full: Path, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_text('{"token": "my secret"}')
    source = tmp_path / "source"
    shutil.copytree(full, source)
    (source / "LICENSE").unlink(missing_ok=True)
    (source / "LICENSE").symlink_to(private)  # such files are left out: nothing depends on them
    (source / "NOTICE").symlink_to("NOTICE")
    (source / "COPYING").symlink_to("/dev/zero")
    verb.export(ExportRequest(path=str(source), target=str(tmp_path / "out")))
    assert not {"LICENSE", "NOTICE", "COPYING"} & {entry.name for entry in (tmp_path / "out").iterdir()}
    (source / "generation_config.json").unlink()
    (source / "generation_config.json").symlink_to(private)
    with pytest.raises(Refused) as refused:
        verb.export(ExportRequest(path=str(source), target=str(tmp_path / "other")))
    assert [problem.params["file"] for problem in refused.value.problems] == ["generation_config.json"]
    assert not (tmp_path / "other").exists()


def test_a_model_whose_small_files_are_links_to_where_they_are_shared_is_exported_and_not_published(
    full: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for file in full.iterdir():
        (source / file.name).symlink_to(file.absolute())
    with pytest.raises(Refused):
        verb.export(ExportRequest(path=str(source), target=str(tmp_path / "other"), published=True))
    verb.export(ExportRequest(path=str(source), target=str(tmp_path / "out")))
    found = {entry.name: entry for entry in (tmp_path / "out").iterdir()}
    assert {"config.json", "tokenizer.json"} <= set(found)
    assert not any(entry.is_symlink() for entry in found.values())


@pytest.mark.parametrize("ends", [OSError(errno.ENOSPC, "No space left on device"), SystemExit(143)])
def test_what_ends_after_the_weights_leaves_nothing(
    ends: BaseException, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any, **options: Any) -> None:
        assert (tmp_path / "out" / "adapter_model.safetensors").is_file()
        raise ends

    monkeypatch.setattr(verb, "write_generation", fail)
    with pytest.raises(Refused if isinstance(ends, OSError) else SystemExit) as raised:
        verb.export(ExportRequest(path=str(adapter), target=str(tmp_path / "out")))
    if isinstance(raised.value, Refused):
        assert [problem.code for problem in raised.value.problems] == ["disk-space"]
    assert list(tmp_path.iterdir()) == []


def test_a_persons_own_prompts_are_asked_before_and_after(adapter: Path, tiny_model_folder: Path) -> None:
    checks, facts = verify.judge_loaded(
        adapter, tiny_model_folder, verify_files(adapter, base=tiny_model_folder),
        prompts=(*verify.PROMPTS, "它<b>切分</b>什么？"), on_step=lambda done, says: None,
    )  # fmt: skip
    asked = facts["prompts"]
    assert isinstance(asked, list)
    assert [one["prompt"] for one in asked] == [*verify.PROMPTS, "它<b>切分</b>什么？"]  # type: ignore[index, call-overload]
    assert all({"before", "after"} <= one.keys() for one in asked)  # type: ignore[union-attr]
    assert [check.verdict for check in checks] == ["pass", "pass"]
    alone = verify.judge_loaded(
        adapter, tiny_model_folder, verify_files(adapter, base=tiny_model_folder), on_step=lambda done, says: None
    )[1]
    assert alone["effect"] == facts["effect"]


def test_settings_beside_states_are_states(tmp_path: Path, adapter: Path) -> None:
    states = tmp_path / "global_step4"
    states.mkdir()
    (states / "zero_pp_rank_0_mp_rank_00_model_states.pt").write_bytes(b"x")
    (states / "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt").write_bytes(b"x")
    shutil.copyfile(adapter / "adapter_config.json", tmp_path / "adapter_config.json")
    assert source_kind(list_folder(tmp_path)) == "zero-checkpoint"
    assert source_kind(list_folder(adapter)) == "lora-adapter"
    shutil.copyfile(adapter / "adapter_model.safetensors", tmp_path / "adapter_model.safetensors")
    assert source_kind(list_folder(tmp_path)) == "lora-adapter"


@pytest.fixture(scope="module")
def states_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letters_base(tmp_path_factory.mktemp("base") / "letters")


def merge_states(source: Path, base: Path, target: Path, **options: Any) -> Path:
    request = ExportRequest(
        path=str(source), base=str(base), target=str(target), merge=True, trust_pickles=True, **options
    )
    assert verb.export(request).kind == "full-model"
    return target


@pytest.mark.filterwarnings("ignore")  # peft warns of embeddings that are saved whole
@pytest.mark.parametrize("case", ["2-2-lora", "2-3-lora", "4-3-lora"])
def test_states_that_are_merged_answer_as_deepspeeds_own_reading_of_them_on_the_base(
    case: str, checkpoints: Path, states_base: Path, tmp_path: Path
) -> None:
    """The adapter on its base is made without our consolidation and without our merge."""
    merged = merge_states(checkpoints / case, states_base, tmp_path / "m", dtype="fp32")
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]
    tuned, _ = build("lora")
    trained = get_fp32_state_dict_from_zero_checkpoint(checkpoints / case)
    assert not tuned.load_state_dict(trained, strict=False).unexpected_keys
    tuned = tuned.float().eval()
    tuned.load_state_dict(trained, strict=False)  # again: what was bf16 a line above has been rounded
    ids = torch.arange(3, 90)[None]
    with torch.inference_mode():
        wanted = tuned(input_ids=ids).logits
        with tuned.disable_adapter():
            before = tuned(input_ids=ids).logits
        found = AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32)(input_ids=ids).logits
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5)
    assert (wanted - before).abs().max() > 0.01


@pytest.mark.filterwarnings("ignore")
def test_states_that_were_merged_are_held_against_the_adapter_that_they_hold(
    checkpoints: Path, states_base: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    merged = merge_states(checkpoints / "2-3-lora", states_base, tmp_path / "m", adapter=str(kept), dtype="bf16")

    def judged() -> dict[str, str]:
        request = CompareRequest(merged=str(merged), path=str(kept), base=str(states_base))
        return {check.name: check.says for check in compare(request).checks if check.name in ("merge", "effect")}

    assert judged() == {"merge": "check.merge.ok", "effect": "check.effect.ok"}
    settings = json.loads((kept / "adapter_config.json").read_text())
    (kept / "adapter_config.json").write_text(json.dumps(settings | {"lora_alpha": 2 * settings["lora_alpha"]}))
    assert judged()["merge"] == "check.merge.differs"


def test_states_of_a_whole_model_are_no_merge_and_nothing_is_written(checkpoints: Path, tmp_path: Path) -> None:
    told: list[str] = []
    request = ExportRequest(
        path=str(checkpoints / "2-3-full"), target=str(tmp_path / "m"), merge=True, trust_pickles=True
    )
    with pytest.raises(Refused) as refused:
        verb.export(request, lambda done, says, params: told.append(says))
    assert [problem.says for problem in refused.value.problems] == ["export.nothing-to-merge"]
    assert "progress.consolidate.write" not in told and list(tmp_path.iterdir()) == []
