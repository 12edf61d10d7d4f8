"""Tokenising and packing 50,000 rows, against TRL's preparation with one process: at least twice its samples a second.

    python -m tests.benchmarks tokenising

Both get the same file, the tokenizer of the bundled model and a template that TRL can mask (ChatML with its generation
marks; ours needs none and gets plain ChatML, which writes the same text). Ours reads and judges the file, renders,
tokenises, masks, packs and writes the folder that the ranks map; TRL's is what `SFTTrainer` does to a data set that is
loaded already (`assistant_only_loss`, `packing`, best fit). The model is a Llama of one layer that nobody trains.

Also: what a second Start with the same data pays for it, at most a second: everything that a plan needs to know of it.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from zeroboard.catalogue import MODELS
from zeroboard.contract.requests import TokeniseRequest
from zeroboard.contract.spec import DataSpec, ModelSpec, RunSpec
from zeroboard.engine.loss import IGNORED
from zeroboard.engine.tokens import load_tokenizer, tokenise
from zeroboard.paths import ASSETS, Paths
from zeroboard.planning.models import read_model
from zeroboard.planning.tokens import tokens_key
from zeroboard.services.prepare import plan

ROWS = 50_000
LENGTH = 1024
PROMISED = 2.0
SECOND = 1.0
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{{ '\n' }}{% else %}{{ message['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PLAIN = CHATML.replace("{% generation %}", "").replace("{% endgeneration %}", "")


def make_rows(file: Path) -> None:
    """Questions and answers of 20 to 300 words, from the words of the demo's data."""
    words = (ASSETS / "demo" / "demo_en.jsonl").read_text(encoding="utf-8").replace('"', " ").split()
    chance = random.Random(0)

    def text(most: int) -> str:
        return " ".join(chance.choices(words, k=chance.randint(10, most)))

    with file.open("w", encoding="utf-8") as stream:
        for _ in range(ROWS):
            turns = [{"role": "user", "content": text(60)}, {"role": "assistant", "content": text(240)}]
            stream.write(json.dumps({"messages": turns}) + "\n")


def make_model(folder: Path, template: str) -> PreTrainedTokenizerBase:
    """A folder with the bundled model's tokenizer and hardly any weights."""
    found = find_spec(MODELS[0].module)
    assert found is not None and found.origin is not None, f"install {MODELS[0].package} without its dependencies"
    gguf = next(Path(found.origin).parent.glob(MODELS[0].file))
    tokenizer = load_tokenizer(gguf.parent, gguf_file=gguf.name)
    tokenizer.chat_template = template
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), num_hidden_layers=1, **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def theirs(home: Path, data: Path) -> tuple[float, float, int, int]:
    """Seconds, seconds of the processor, packed rows and learned tokens of TRL's preparation."""
    from datasets import load_dataset
    from trl import SFTConfig, SFTTrainer

    tokenizer = make_model(home / "theirs", CHATML)
    loaded = load_dataset("json", data_files=str(data), split="train", cache_dir=str(home / "datasets"))
    spent: list[tuple[float, float]] = []

    class Timed(SFTTrainer):  # type: ignore[misc]
        def _prepare_dataset(self, *args: Any, **kwargs: Any) -> Any:
            begun, worked = time.perf_counter(), time.process_time()
            made = super()._prepare_dataset(*args, **kwargs)
            spent.append((time.perf_counter() - begun, time.process_time() - worked))
            return made

    config = SFTConfig(
        output_dir=str(home / "out"),
        max_length=LENGTH,
        packing=True,
        assistant_only_loss=True,
        dataset_num_proc=None,
        use_cpu=True,
        bf16=False,
        report_to="none",
    )
    model = LlamaForCausalLM.from_pretrained(home / "theirs")
    made = Timed(model=model, args=config, train_dataset=loaded, processing_class=tokenizer).train_dataset
    learned = sum(label != IGNORED for row in made["labels"] for label in row)
    return *spent[0], len(made), learned


def main(_: list[str]) -> int:
    """Prints what each took; 1 where a promise is broken."""
    warnings.simplefilter("ignore")
    os.environ["TOKENIZERS_PARALLELISM"] = "true"  # as the verb sets it
    with tempfile.TemporaryDirectory(prefix="tokenising-") as where:
        home, paths = Path(where), Paths(Path(where) / "cache")
        data = home / "data.jsonl"
        make_rows(data)
        make_model(home / "ours", PLAIN)
        model, _problems = read_model(str(home / "ours"), paths)
        assert model is not None
        target = paths.tokens / tokens_key(data, model, LENGTH)
        begun, worked = time.perf_counter(), time.process_time()
        facts = tokenise(
            TokeniseRequest(data_path=str(data), model_path=str(home / "ours"), max_length=LENGTH, target=str(target))
        )
        ours, own = time.perf_counter() - begun, time.process_time() - worked
        spec = RunSpec(model=ModelSpec(path=str(home / "ours")), data=DataSpec(path=str(data), max_length=LENGTH))
        plan(paths, spec)
        begun = time.perf_counter()
        again = plan(paths, spec)
        second = time.perf_counter() - begun
        assert again.tokens == facts
        seconds, processor, packed, learned = theirs(home, data)
    print(f"ours      {ROWS / ours:9.0f} samples/s: {facts.packed} rows of {LENGTH}, {facts.learned} tokens learned")
    print(f"TRL       {ROWS / seconds:9.0f} samples/s: {packed} rows of {LENGTH}, {learned} tokens learned")
    print(f"ratio     {seconds / ours:9.2f}, at least {PROMISED}")
    print(f"processor {processor / own:9.2f} times ours, in all threads")
    print(f"again     {second:9.3f} s for a second Start, at most {SECOND}")
    return int(seconds / ours < PROMISED or second > SECOND)
