"""A merge is compared with peft's own, for every kind of adapter that goes in."""

from __future__ import annotations

import errno
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from tests.engine.results import make_adapter
from tests.tiny import tiny_model, tiny_tokenizer
from zeroboard.checkpoints import consolidate
from zeroboard.checkpoints.verify import verify_files
from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import MergeReport
from zeroboard.contract.requests import VERB_LINE, Answer, MergeRequest, Progress
from zeroboard.engine import merge
from zeroboard.engine.channel import Channel
from zeroboard.errors import Refused
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.modelfiles import TOKEN_FILES

pytestmark = pytest.mark.filterwarnings("ignore")  # peft warns of most of these combinations

Change = Callable[[Any], None]


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tied") / "base", tied=True)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2") / "base"
    tokenizer = tiny_tokenizer()
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=2, n_positions=64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def train(folder: Path, base: Path, *, resized: int | None = None, cast: torch.dtype | None = None, **how: Any) -> Path:
    """An adapter as a training leaves it: everything that was trainable has moved."""
    model = AutoModelForCausalLM.from_pretrained(base)
    if resized is not None:
        model.resize_token_embeddings(resized, mean_resizing=False)
    options: dict[str, Any] = {
        "r": 4,
        "lora_alpha": 6,
        "task_type": "CAUSAL_LM",
        "target_modules": ["q_proj", "v_proj"],
    }
    tuned = get_peft_model(model, LoraConfig(**(options | how)))
    noise = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in tuned.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=noise) * 0.1)
    if cast is not None:
        tuned.to(cast)
    tuned.save_pretrained(folder)
    return folder


def by_peft(folder: Path, base: Path, resized: int | None = None, dtype: torch.dtype = torch.float32) -> Any:
    model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    if resized is not None:
        model.resize_token_embeddings(resized, mean_resizing=False)
    return PeftModel.from_pretrained(model, str(folder)).eval()


def merged(folder: Path, base: Path, target: Path, **options: Any) -> MergeReport:
    return merge.merge(MergeRequest(path=str(folder), base=str(base), target=str(target), **options))


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all-linear": {"target_modules": "all-linear"},
    "root of the rank": {"use_rslora": True},
    "dora": {"use_dora": True, "target_modules": "all-linear"},
    "patterns": {
        "target_modules": "all-linear",
        "rank_pattern": {"q_proj": 2, r".*layers\.1\.mlp\.up_proj": 6},
        "alpha_pattern": {"v_proj": 1, r"layers\.0\.mlp\.down_proj": 30},
    },
    "modules to save": {"modules_to_save": ["embed_tokens", "norm"]},
    "head to save": {"modules_to_save": ["lm_head"]},
    "embedding": {"target_modules": ["q_proj", "embed_tokens"]},
    "embedding dora": {"target_modules": ["embed_tokens", "lm_head"], "use_dora": True},
    "tokens": {"trainable_token_indices": [3, 200]},
    "tokens of both ends": {"trainable_token_indices": {"embed_tokens": [3, 200], "lm_head": [7]}},
    "resized": {"resized": 400},
    "resized and trained": {"resized": 400, "modules_to_save": ["embed_tokens", "lm_head"]},
    "half": {"cast": torch.bfloat16},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_equals_pefts_own_merge(variant: str, tmp_path: Path, tiny_model_folder: Path) -> None:
    how = VARIANTS[variant]
    folder = train(tmp_path / "a", tiny_model_folder, **how)
    report = merged(folder, tiny_model_folder, tmp_path / "m")
    wanted = by_peft(folder, tiny_model_folder, how.get("resized")).merge_and_unload().state_dict()
    same(load_file(tmp_path / "m" / "model.safetensors"), wanted)
    assert 0 < report.changed < report.tensors == len(wanted)
    assert not [c for c in verify_files(folder, base=tiny_model_folder).checks if c.verdict == "fail"]
    verdict = verify_files(tmp_path / "m")
    assert verdict.kind == "full-model" and not [c for c in verdict.checks if c.verdict == "fail"], verdict.checks


def same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor], tolerance: float = 2e-6) -> None:
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(
            found[name], tensor, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


CONV1D: dict[str, dict[str, Any]] = {
    "conv1d": {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True},
    "conv1d dora": {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True, "use_dora": True},
    "with biases": {"target_modules": ["c_attn"], "bias": "all"},
    "added bias": {"target_modules": ["c_attn"], "lora_bias": True},
}


@pytest.mark.parametrize("variant", CONV1D)
def test_conv1d_and_biases(variant: str, tmp_path: Path, gpt2: Path) -> None:
    base = gpt2 if "dora" in variant else without_prefix(gpt2, tmp_path / "base")
    folder = train(tmp_path / "a", base, **CONV1D[variant])
    merged(folder, base, tmp_path / "m")
    wanted = by_peft(folder, base).merge_and_unload().state_dict()
    same(AutoModelForCausalLM.from_pretrained(tmp_path / "m").state_dict(), wanted)


ENDS: tuple[dict[str, Any], ...] = (
    {"target_modules": ["c_attn", "wte"]},
    {"target_modules": ["c_attn", "c_proj", "lm_head"], "use_dora": True},
)


@pytest.mark.parametrize("how", ENDS)
def test_conv1d_beside_the_ends_of_a_tied_model(how: dict[str, Any], tmp_path: Path, gpt2: Path) -> None:
    """`fan_in_fan_out` in the file is that of the layer that peft met last."""
    base = without_prefix(gpt2, tmp_path / "base")
    folder = train(tmp_path / "a", base, **how)
    assert [note.says for note in merged(folder, base, tmp_path / "m").notes] == ["merge.untied"]
    ids = torch.tensor([[1, 3, 4, 7, 200, 250]])
    with torch.inference_mode():
        found = AutoModelForCausalLM.from_pretrained(tmp_path / "m")(input_ids=ids).logits
        wanted = by_peft(folder, base)(input_ids=ids).logits
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def without_prefix(base: Path, folder: Path) -> Path:
    """As the first GPT-2 files were: without the model's own prefix."""
    folder.mkdir()
    for file in base.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    tensors = {n.removeprefix("transformer."): t for n, t in load_file(base / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


TIED: dict[str, tuple[dict[str, Any], bool]] = {
    "embedding": ({"target_modules": ["q_proj", "embed_tokens"]}, False),
    "head": ({"target_modules": ["q_proj", "lm_head"]}, False),
    "both": ({"target_modules": ["embed_tokens", "lm_head"]}, False),
    "both held together": ({"target_modules": ["embed_tokens", "lm_head"], "ensure_weight_tying": True}, True),
    "tokens": ({"trainable_token_indices": [3, 200]}, True),
    "tokens of each end": ({"trainable_token_indices": {"embed_tokens": [3, 4], "lm_head": [7]}}, False),
    "saved embedding": ({"modules_to_save": ["embed_tokens"]}, False),
    "saved ends": ({"modules_to_save": ["embed_tokens", "lm_head"]}, False),
    "saved ends held together": (
        {"modules_to_save": ["embed_tokens", "lm_head"], "ensure_weight_tying": True},
        True,
    ),
    "resized": ({"resized": 400}, True),
    "layers only": ({}, True),
}


@pytest.mark.parametrize("variant", TIED)
def test_a_tied_model_answers_as_the_adapter_on_it(variant: str, tmp_path: Path, tied: Path) -> None:
    """Against the adapter itself: where the ends differ, peft's merge would change both of them."""
    how, stays = TIED[variant]
    folder = train(tmp_path / "a", tied, **how)
    report = merged(folder, tied, tmp_path / "m")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "m")
    tuned = by_peft(folder, tied, how.get("resized"))
    ids = torch.tensor([[1, 3, 4, 7, 200, 250]])
    with torch.inference_mode():
        found, wanted = model(input_ids=ids).logits, tuned(input_ids=ids).logits
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert model.config.tie_word_embeddings is stays
    assert [note.says for note in report.notes] == ([] if stays else ["merge.untied"])
    assert ("lm_head.weight" in load_file(tmp_path / "m" / "model.safetensors")) is not stays


def test_types_and_shards(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = train(tmp_path / "a", tiny_model_folder, target_modules="all-linear", use_dora=True)
    report = merged(folder, tiny_model_folder, tmp_path / "m", dtype="bf16", shard_bytes=60_000)
    assert len(report.files) > 2
    index = json.loads((tmp_path / "m" / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == set(report.files)
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    assert config["dtype"] == "bfloat16" and "_name_or_path" not in config
    exact = by_peft(folder, tiny_model_folder).merge_and_unload().state_dict()
    found = {n: t for file in report.files for n, t in load_file(tmp_path / "m" / file).items()}
    # rounded once, from fp32: never further from the exact number than half a digit, but for sums in another order
    same({n: t.float() for n, t in found.items()}, exact, 2.0**-8)
    equal = sum(int((found[n] == t.bfloat16()).sum()) for n, t in exact.items())
    assert equal > 0.999 * sum(t.numel() for t in exact.values())


def test_a_base_in_half_precision_gets_the_sum_rounded_once(tmp_path: Path, tiny_model_folder: Path) -> None:
    base = tmp_path / "base"
    merged(train(tmp_path / "zero", tiny_model_folder), tiny_model_folder, base, dtype="bf16")
    folder = train(tmp_path / "a", base)
    merged(folder, base, tmp_path / "m")
    found = load_file(tmp_path / "m" / "model.safetensors")
    wanted = by_peft(folder, base, dtype=torch.bfloat16).merge_and_unload().state_dict()
    assert {t.dtype for t in found.values()} == {torch.bfloat16}
    differing = sum(int((found[n] != t).sum()) for n, t in wanted.items())
    assert differing < 0.001 * sum(t.numel() for t in wanted.values())


def test_the_folder_is_whole_and_of_the_training(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = make_adapter(tmp_path / "a", tiny_model_folder)
    (folder / "chat_template.jinja").write_text((folder / "chat_template.jinja").read_text() + "{# the run's #}")
    report = merged(folder, tiny_model_folder, tmp_path / "m")
    names = {path.name for path in (tmp_path / "m").iterdir()}
    assert names == {
        "model.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
    }
    assert "the run's" in (tmp_path / "m" / "chat_template.jinja").read_text()
    ends = json.loads((tmp_path / "m" / "generation_config.json").read_text())["eos_token_id"]
    assert ends == tiny_tokenizer().convert_tokens_to_ids("<|im_end|>")
    assert report.path == str(tmp_path / "m") and not list(tmp_path.glob(".*"))
    with pytest.raises(Refused) as refused:
        merged(folder, tiny_model_folder, tmp_path / "m")
    assert refused.value.problems[0].code == "output-exists"


def test_a_full_disk_is_said(tmp_path: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is written, or when another program was faster."""
    folder = make_adapter(tmp_path / "a", tiny_model_folder)
    with monkeypatch.context() as patched:
        patched.setattr(consolidate, "MARGIN", 1 << 60)
        assert refusals(folder, tiny_model_folder, tmp_path / "m") == {"problem.disk-space.export"}

    def full(*given: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(merge, "write_shards", full)
    assert refusals(folder, tiny_model_folder, tmp_path / "m") == {"problem.disk-space.export"}
    assert not list(tmp_path.glob(".*"))


def refusals(folder: Path, base: Path | None, target: Path) -> set[str]:
    """Why the verb refuses; every sentence and its remedy must exist, and nothing may be left."""
    request = MergeRequest(path=str(folder), base=str(base) if base else None, target=str(target))
    sink = io.BytesIO()
    assert merge.main(Channel(source=io.StringIO(request.model_dump_json() + "\n"), sink=sink)) == 0
    answer = VERB_LINE.validate_json(sink.getvalue().splitlines()[-1])
    assert isinstance(answer, Answer) and answer.value is None and not target.exists()
    assert all(told(problem) for problem in answer.problems)
    return {problem.message_key for problem in answer.problems}


def told(problem: Problem) -> bool:
    return all(
        has(key, language) and "{" not in say(key, language, **problem.params)
        for key in (problem.message_key, problem.remedy_key)
        for language in LANGUAGES
    )


def test_the_verb_answers_with_progress(tmp_path: Path, tiny_model_folder: Path) -> None:
    request = MergeRequest(
        path=str(make_adapter(tmp_path / "a", tiny_model_folder)), target=str(tmp_path / "m"), base=None
    )
    sink = io.BytesIO()
    merge.main(Channel(source=io.StringIO(request.model_dump_json() + "\n"), sink=sink))
    *progress, answer = [VERB_LINE.validate_json(line) for line in sink.getvalue().splitlines()]
    done = [line.done or 0 for line in progress if isinstance(line, Progress)]
    assert done == sorted(done) and done[-1] == 1.0
    assert isinstance(answer, Answer) and MergeReport.model_validate(answer.value).changed == 14


def test_numbers_that_are_none_or_do_not_fit_are_refused(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = train(tmp_path / "a", tiny_model_folder)
    weights = folder / "adapter_model.safetensors"
    tensors = load_file(weights)
    first = next(name for name in tensors if "lora_B" in name)
    tensors[first][0, 0] = 1e6
    save_file(tensors, weights)
    with pytest.raises(Refused) as refused:
        merged(folder, tiny_model_folder, tmp_path / "m", dtype="fp16")
    assert refused.value.problems[0].says == "merge.overflow" and told(refused.value.problems[0])
    tensors[first][0, 0] = torch.nan
    save_file(tensors, weights)
    assert refusals(folder, tiny_model_folder, tmp_path / "m") == {"merge.not-finite"}
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config.json", {"time_step_limit": [0.0, float("inf")], "note": "\ud800"}),
        ("tokenizer_config.json", {"tokenizer_class": ["x"]}),
        ("tokenizer_config.json", {"unk_token": "<not in it>", "bos_token": "<nor this>"}),
        ("tokenizer.json", {"model": {"type": "unheard-of"}}),
        ("generation_config.json", {"eos_token_id": [2, "x"], "temperature": float("nan")}),
    ],
)
def test_odd_files_of_others_go_on_as_they_are(
    file: str, changes: dict[str, Any], tmp_path: Path, tiny_model_folder: Path
) -> None:
    base, adapter = tmp_path / "base", make_adapter(tmp_path / "a", tiny_model_folder)
    shutil.copytree(tiny_model_folder, base)
    for name in TOKEN_FILES:  # so that the tokenizer is the base's
        (adapter / name).unlink(missing_ok=True)
    odd = json.loads((base / file).read_text()) | changes
    (base / file).write_text(json.dumps(odd))
    merged(adapter, base, tmp_path / "m")
    kept = json.loads((tmp_path / "m" / file).read_text())
    assert {key: repr(kept[key]) for key in changes if key != "eos_token_id"} == {
        key: repr(value) for key, value in changes.items() if key != "eos_token_id"
    }
    assert verify_files(tmp_path / "m").kind == "full-model"
