"""The model card of an export, its snippet, and a Modelfile for Ollama: what it is, from what, and whether it is sound.

The card says what was measured and nothing more; no path of this machine stands in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from zeroboard import __version__
from zeroboard.checkpoints.inspect import ADAPTER_CONFIG
from zeroboard.contract.exports import ExportWish
from zeroboard.contract.reports import VerifyReport
from zeroboard.contract.requests import Exported
from zeroboard.contract.spec import RunSpec
from zeroboard.files import read_json, to_json, write_atomic
from zeroboard.messages import say
from zeroboard.paths import Paths
from zeroboard.planning import hub
from zeroboard.services import export_source

CARD = "README.md"
MODELFILE = "Modelfile"
REPORT = "verification.json"

SETTINGS = (
    "method.kind", "method.rank", "method.alpha", "method.dropout", "method.targets", "train.learning_rate",
    "train.epochs", "train.max_steps", "train.micro_batch", "train.accumulation", "train.schedule",
    "train.precision", "train.seed", "data.max_length", "zero.stage", "zero.offload",
)  # fmt: skip
"""Fields of the spec that a card shows, where they are set; those of LoRA only where it is LoRA."""

FENCE = "```"


def write(
    paths: Paths, wish: ExportWish, room: Path, written: Exported, verification: VerifyReport, gguf: str | None
) -> None:
    """Write card, verification and Modelfile into the folder."""
    spec = export_source.spec_of(paths, wish.run_id)
    base = export_source.base_folder(Path(wish.path), Path(wish.base) if wish.base else None)
    card = Card(paths, wish, written, verification, spec, base, gguf)
    write_atomic(room / CARD, card.text())
    write_atomic(room / REPORT, _nameless(verification, (room, Path(wish.path), base)))
    write_atomic(room / MODELFILE, modelfile(written, card.base_name, gguf))
    if wish.push and card.hub and card.adapter:  # others find the base by that name, and not by a path of this machine
        config = read_json(room / ADAPTER_CONFIG)
        write_atomic(room / ADAPTER_CONFIG, to_json(config | {"base_model_name_or_path": card.hub}))


def _nameless(verification: VerifyReport, places: Iterable[Path | None]) -> str:
    """A verification as JSON with the names of folders instead of their paths."""
    text = to_json(verification.model_copy(update={"path": "."}).model_dump(mode="json"))
    for place in places:
        if place is not None:
            text = text.replace(_quoted(str(place))[1:-1], _quoted(place.name)[1:-1])
    return text


class Card:
    """The text of a card, part by part."""

    def __init__(
        self,
        paths: Paths,
        wish: ExportWish,
        written: Exported,
        verification: VerifyReport,
        spec: RunSpec | None,
        base: Path | None,
        gguf: str | None,
    ) -> None:
        self.wish, self.written, self.verification, self.spec, self.gguf = wish, written, verification, spec, gguf
        self.adapter = written.kind == "lora-adapter"
        self.hub = export_source.hub_name(paths, base)
        self.base_name = self.hub or (base.name if base is not None else None)
        self.licence = export_source.licence_of(paths, base or Path(wish.path))

    def say(self, key: str, **params: Any) -> str:
        return say(f"card.{key}", self.wish.language, **params)

    def text(self) -> str:
        parts = (
            self.front(),
            f"# {_line(Path(self.wish.target).name)}",
            self.say(f"what.{self.written.kind}", base=self._base_words()),
            *self.data(),
            *self.settings(),
            *self.soundness(),
            *self.use(),
            self.say("made", version=__version__),
        )
        return "\n\n".join(part for part in parts if part) + "\n"

    def front(self) -> str:
        """The front matter that hubs read."""
        lora = self.adapter or (self.wish.merge and self.wish.kind == "lora-adapter")
        values: dict[str, Any] = {"library_name": "peft" if self.adapter else "transformers"}
        values["pipeline_tag"] = "text-generation"
        values |= self.licence
        if self.hub:
            values["base_model"] = self.hub
            values["base_model_relation"] = "adapter" if self.adapter else "finetune"
        named = [hub.parse(path, "dataset") for path, _ in self.trained_on()]
        repositories = dict.fromkeys(one.repository for one in named if one is not None and one.site == "hub")
        if repositories:
            values["datasets"] = list(repositories)
        values["tags"] = ["zeroboard", "lora" if lora else "fine-tuned", *(["gguf"] if self.gguf else [])]
        return f"---\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True)}---"

    def data(self) -> tuple[str, ...]:
        if self.spec is None:
            return (f"## {self.say('data')}", self.say("data-unknown"))
        names = []
        for path, weight in self.trained_on():
            name = _line(path if hub.names_hub(path) else Path(path).name)
            names.append(name if weight == 1.0 else f"{name} (× {weight:g})")
        told = say("ui.list.comma", self.wish.language).join(names)
        return f"## {self.say('data')}", self.say("data-known" if len(names) == 1 else "data-mixed", name=told)

    def trained_on(self) -> list[tuple[str, float]]:
        """The data as it was named, each with its weight."""
        if self.spec is None:
            return []
        more = [(one.path, one.weight) for one in self.spec.data.more]
        return [(self.spec.data.path, self.spec.data.weight), *more]

    def settings(self) -> tuple[str, ...]:
        if self.spec is None:
            return ()
        rows = []
        for key in SETTINGS:
            group, name = key.split(".")
            value = getattr(getattr(self.spec, group), name)
            if value is None or (group == "method" and name != "kind" and self.spec.method.kind != "lora"):
                continue
            label = say(f"field.{key}.label", self.wish.language)
            rows.append(f"| {label} | `{key}` | {_line(str(value))} |")
        head = f"| {self.say('setting')} | {self.say('key')} | {self.say('value')} |\n|---|---|---|"
        return f"## {self.say('settings')}", "\n".join((head, *rows))

    def soundness(self) -> tuple[str, ...]:
        """The verdict with every check; a check that was skipped is called that."""
        language = self.wish.language
        verdict = self.verification.verdict
        rows = [
            f"| {say(f'check.{c.name}.label', language)} | {say(f'ui.verdict.{c.verdict}', language)} |"
            for c in self.verification.checks
        ]
        head = f"| {self.say('check')} | {self.say('verdict')} |\n|---|---|"
        return (
            f"## {self.say('verification')}",
            self.say(f"verdict.{verdict}"),
            "\n".join((head, *rows)),
            self.say("not-covered"),
        )

    def use(self) -> tuple[str, ...]:
        parts = [f"## {self.say('use')}", f"{FENCE}python\n{snippet(self.adapter, self.base_name)}{FENCE}"]
        if self.written.stops:
            parts.append(self.say("stops", stops=", ".join(_code(stop) for stop in self.written.stops)))
        if self.written.template is not None:
            parts.append(self.say("template"))
        parts += [self.say("ollama"), f"{FENCE}sh\nollama create my-model -f {MODELFILE}\n{FENCE}"]
        if self.adapter or self.gguf is None:
            parts.append(self.say("ollama.limits"))
        return tuple(parts)

    def _base_words(self) -> str:
        return _code(self.base_name) if self.base_name else self.say("base.unknown")


def snippet(adapter: bool, base: str | None) -> str:
    """Python that loads the folder and asks it something; of an adapter, with its base."""
    load = (
        f"""from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

base = {json.dumps(base or "BASE", ensure_ascii=False)}
folder = "."
tokenizer = AutoTokenizer.from_pretrained(folder)
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), folder)
model.generation_config = GenerationConfig.from_pretrained(folder)
"""
        if adapter
        else """from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
"""
    )
    return (
        load
        + """
messages = [{"role": "user", "content": "Who are you?"}]
inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
answer = model.generate(**inputs, max_new_tokens=128)
print(tokenizer.decode(answer[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))
"""
    )


CHATML = "{{- range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n"
"""ChatML as Ollama writes templates."""


def modelfile(written: Exported, base: str | None, gguf: str | None) -> str:
    """For `ollama create`: weights, template where it is known, every end token."""
    if gguf is not None:
        lines = [f"FROM ./{gguf}"]
    elif written.kind == "lora-adapter":
        lines = [f"FROM {_quoted(base) if base else 'BASE'}", "ADAPTER ."]
    else:
        lines = ["FROM ."]
    if written.template == "chatml":
        lines.append(f'TEMPLATE """{CHATML}"""')
        if written.system:
            lines.append(f'SYSTEM """{written.system.replace(chr(34) * 3, chr(39) * 3)}"""')
    lines += [f"PARAMETER stop {_quoted(stop)}" for stop in written.stops]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _code(text: str) -> str:
    """The same as code, where only what ends it is taken away."""
    return f"`{' '.join(text.replace(chr(96), ' ').split())}`"


def _line(text: str) -> str:
    """A name from elsewhere as one line of Markdown, which it cannot leave."""
    shown = " ".join(text.split())
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|" else c for c in shown)
