"""The verb `convert`: a bundled model's GGUF file becomes a folder of safetensors with tokenizer and chat template.

The weights are unpacked once and kept in bfloat16, the type in which the model was released: what the 4-bit file has
lost is far more than bfloat16 loses. The folder appears whole or not at all.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GgufConfig

from zeroboard.catalogue import BundledModel, bundled_model
from zeroboard.contract.problems import Problem
from zeroboard.contract.requests import Answer, ConvertRequest
from zeroboard.engine.channel import Channel
from zeroboard.engine.tokens import load_tokenizer
from zeroboard.errors import Refused
from zeroboard.files import place, share


def main(channel: Channel) -> int:
    """The verb: one `ConvertRequest` in, progress, an `Answer` with the folder (or the problem) out."""
    request = ConvertRequest.model_validate_json(channel.receive() or "")
    try:
        convert(request, channel)
    except Refused as refused:
        channel.send(Answer(problems=refused.problems))
    else:
        channel.send(Answer(value=request.target))
    return 0


def gguf_file(model: BundledModel) -> Path:
    """The GGUF file in the package. Raises `Refused` (`model-missing`; its remedy names the pip command)."""
    # the package itself is not imported: it wants libraries that its file does not need
    spec = importlib.util.find_spec(model.module)
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    files = sorted(file for folder in folders for file in folder.glob(model.file))
    if not files:
        problem = Problem(
            code="model-missing",
            field="model.path",
            says="problem.model-missing.bundled",
            params={"model": model.name, "package": model.package},
        )
        raise Refused([problem])
    return files[0]


def convert(request: ConvertRequest, channel: Channel) -> None:
    """Unpack a bundled model into `request.target`; nothing to do where it is there. Raises `Refused`."""
    target = Path(request.target)
    if (target / "config.json").is_file():
        return
    model = bundled_model(request.name)
    if model is None:
        raise Refused([Problem(code="model-missing", field="model.path", params={"path": request.name})])
    channel.progress("convert", 0.0, "progress.convert.read", name=model.name, package=model.package)
    file = gguf_file(model)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        tokenizer = load_tokenizer(file.parent, gguf_file=file.name)
        channel.progress("convert", 0.2, "progress.convert.weights", name=model.name)
        weights = AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.bfloat16,
            local_files_only=True,
        )
        channel.progress("convert", 0.8, "progress.convert.write", name=model.name)
        weights.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        share(folder)
        if target.exists() and not (target / "config.json").is_file():  # no model, so nothing that we would have made
            shutil.rmtree(target)
        place(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    channel.progress("convert", 1.0, "progress.convert.write", name=model.name)
