"""A model's facts, read from its folder without loading it: configuration, safetensors headers, tokenizer files.

Covered: bundled models before and after they are converted, local folders, weights that are missing, cut or of a kind
that is not trained, models that came from a hub. Nothing here ever asks a hub.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from zeroboard.catalogue import BundledModel, bundled_model
from zeroboard.contract.plan import ModelFacts
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.errors import BrokenFile
from zeroboard.files import read_json
from zeroboard.headers import read_header
from zeroboard.modelfiles import TEMPLATE, TOKENIZER_CONFIG, VOCABULARIES, default_template
from zeroboard.paths import Paths, reachable
from zeroboard.planning import hub
from zeroboard.planning.shapes import ShapeFacts, llama_shapes, shape_facts

INDEX = "model.safetensors.index.json"

COUNTS = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size",
    "max_position_embeddings", "head_dim", "n_embd", "n_layer", "n_head", "n_positions",
)  # fmt: skip
"""Keys of `config.json` that count something."""
SWITCHES = ("tie_word_embeddings", "attention_bias", "mlp_bias", "use_cache")
NUMBERS = (
    "rms_norm_eps",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "rope_theta",
    "initializer_range",
    "attention_dropout",
)
LARGEST = 10**12
"""No model counts more of anything."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_CAUSAL = ("ForCausalLM", "LMHeadModel")

Found = tuple[ModelFacts | None, tuple[Problem, ...]]


def read_model(ref: str, paths: Paths) -> Found:
    """The facts of a bundled model (by name), of a local folder or of what came from a hub (`hub:…`), and its problems.

    The facts are None where the model cannot be used at all. Problems: `model-missing`, `model-unsupported`.
    """
    bundled = bundled_model(ref)
    if bundled is not None:
        return _bundled(bundled, paths)
    if hub.names_hub(ref):
        return _of_hub(ref, paths)
    folder = reachable(ref)
    if folder is None or not folder.is_dir():
        says = "problem.model-missing.hub" if _HUB_ID.fullmatch(ref) else None
        return None, (_missing(says, path=ref),)
    # a folder that is called like a bundled model must not be taken for it
    name = folder.name if bundled_model(folder.name) is None else str(folder)
    try:
        return _folder(folder, name)
    except OSError as error:
        return None, (_missing("problem.model-missing.unreadable", path=ref, why=error.strerror or str(error)),)


def _of_hub(ref: str, paths: Paths) -> Found:
    asked = hub.parse(ref)
    model = hub.find(asked, paths) if asked is not None else None
    if model is None:
        return None, (hub.missing(ref),)
    try:
        facts, problems = _folder(model.folder, model.manifest.repository)
    except OSError as error:
        why = {"path": str(model.folder), "why": error.strerror or str(error)}
        return None, (_missing("problem.model-missing.unreadable", **why),)
    return facts.model_copy(update={"commit": model.manifest.commit}) if facts else None, problems


def _bundled(entry: BundledModel, paths: Paths) -> Found:
    folder = entry.folder(paths).absolute()
    if (folder / "config.json").is_file():
        facts, problems = _folder(folder, entry.name)
        return facts.model_copy(update={"licence": entry.licence}) if facts else None, problems
    shapes = shape_facts(llama_shapes(entry.config), tied=bool(entry.config.get("tie_word_embeddings")))
    facts = _facts(folder, entry.name, entry.config, shapes).model_copy(
        update={"has_template": True, "licence": entry.licence, "prepared": False}
    )
    if _package_file(entry) is None:
        return facts, (_missing("problem.model-missing.bundled", model=entry.name, package=entry.package),)
    return facts, ()


def _package_file(entry: BundledModel) -> Path | None:
    """The file that a bundled model is converted from; None where its package is not installed."""
    found = find_spec(entry.module)
    folders = found.submodule_search_locations if found is not None else None
    return next((file for folder in folders or () for file in sorted(Path(folder).glob(entry.file))), None)


def _folder(folder: Path, name: str) -> Found:
    config, problem = _config(folder)
    if config is None:
        return None, (problem,) if problem is not None else ()
    problems = [
        *_unsupported(config, name),
        *_wrong_types(config, str(folder / "config.json")),
        *_tokenizer(folder, name),
        *_two_templates(folder, name),
    ]
    files, missing = _weight_files(folder)
    problems += missing
    shapes, broken = _shapes(files)
    problems += broken
    if not (missing or broken) and not any(math.prod(shape) for shape, _ in shapes.values()):
        problems.append(_missing("problem.model-missing.weights", path=str(folder)))
    tied = bool(config.get("tie_word_embeddings", False))
    summed = shape_facts({n: shape for n, (shape, _) in shapes.items()}, tied=tied) if shapes else None
    facts = _facts(folder, name, config, summed)
    dtypes = {dtype for _, dtype in shapes.values()}
    facts = facts.model_copy(
        update={
            "dtype": _dtype(config, dtypes),
            "has_template": _has_template(folder),
            "licence": _licence(folder),
            "size": sum(file.stat().st_size for file in files if file.is_file()),
        }
    )
    return facts, tuple(problems)


def _facts(folder: Path, name: str, config: Mapping[str, Any], shapes: ShapeFacts | None) -> ModelFacts:
    inner = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    assert isinstance(inner, Mapping)
    architectures = config.get("architectures")
    return ModelFacts(
        path=str(folder),
        name=name,
        architecture=str(architectures[0]) if isinstance(architectures, list) and architectures else None,
        model_type=_text(config.get("model_type")),
        parameters=shapes.parameters if shapes else None,
        context_length=_number(inner.get("max_position_embeddings", inner.get("n_positions"))),
        vocabulary=_number(inner.get("vocab_size")),
        layers=_number(inner.get("num_hidden_layers", inner.get("n_layer"))),
        hidden=_number(inner.get("hidden_size", inner.get("n_embd"))),
        quantized=_quantized(config)[0],
        storage=_quantized(config)[1],
        remote_code=_needs_code(config),
        linear_shapes=shapes.linear_shapes if shapes else {},
        tensor_sizes=shapes.tensor_sizes if shapes else {},
    )


def _missing(says: str | None, **params: Scalar) -> Problem:
    return Problem(code="model-missing", field="model.path", says=says, params=params)


def _refused(says: str, **params: Scalar) -> Problem:
    return Problem(
        code="model-unsupported", field="model.path", says=f"problem.model-unsupported.{says}", params=params
    )


def _config(folder: Path) -> tuple[dict[str, Any] | None, Problem | None]:
    path = folder / "config.json"
    if not path.is_file():
        gguf = next(iter(sorted(folder.glob("*.gguf"))), None)
        adapter = (folder / "adapter_config.json").is_file()
        says = "gguf" if gguf is not None else "adapter" if adapter else "config"
        return None, _missing(f"problem.model-missing.{says}", path=str(folder))
    try:
        value = read_json(path)
    except BrokenFile as error:
        return None, _refused("config", path=str(path), why=str(error.params["why"])[:200])
    if not isinstance(value, dict):
        return None, _refused("config", path=str(path), why=type(value).__name__)
    return value, None


def _unsupported(config: Mapping[str, Any], name: str) -> list[Problem]:
    architectures = config.get("architectures")
    first = str(architectures[0]) if isinstance(architectures, list) and architectures else None
    if _quantized(config)[0] is not None:
        return [_refused("quantized", model=name)]
    if first is not None and not first.endswith(_CAUSAL):
        return [_refused("architecture", model=name, architecture=first[:80])]
    kind = str(config.get("model_type"))
    known = _causal_types()
    if known and kind not in known and not config.get("auto_map"):
        return [_refused("unknown", model=name, type=kind[:80])]
    return []


def _quantized(config: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The method of a quantised model, and the type that its weights are stored in (bitsandbytes packs 4 bits so)."""
    found = config.get("quantization_config")
    if not found:
        return None, None
    told = found if isinstance(found, dict) else {}
    return str(told.get("quant_method") or "?")[:40], _text(told.get("bnb_4bit_quant_storage"))


def _wrong_types(config: Mapping[str, Any], path: str) -> list[Problem]:
    """Values that no model could be made with: each rank would fail on them, after it was paid for."""
    inner = config.get("text_config")
    found = []
    for place, values in (("", config), ("text_config.", inner if isinstance(inner, Mapping) else {})):
        for key in COUNTS:
            value = values.get(key)
            if not (value is None or _counts(value)):
                found.append((place + key, value, "count"))
        for key in SWITCHES:
            if not isinstance(values.get(key, False), bool):
                found.append((place + key, values[key], "switch"))
        for key in NUMBERS:
            value = values.get(key)
            good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if value is not None and not good:
                found.append((place + key, value, "number"))
    if inner is not None and not isinstance(inner, Mapping):
        found.append(("text_config", inner, "object"))
    architectures = config.get("architectures")
    if architectures is not None and not (
        isinstance(architectures, list) and all(isinstance(a, str) for a in architectures)
    ):
        found.append(("architectures", architectures, "names"))
    return [_refused(f"value.{kind}", key=key, value=str(value)[:60], path=path) for key, value, kind in found]


def _counts(value: object) -> bool:
    """A positive whole number; some models give a list of them, one for each layer."""
    items = value if isinstance(value, list) and value else [value]
    return all(isinstance(item, int) and not isinstance(item, bool) and 0 < item < LARGEST for item in items)


def _needs_code(config: Mapping[str, Any]) -> bool:
    """It brings code of its own and transformers has none for it."""
    return bool(config.get("auto_map")) and str(config.get("model_type")) not in _causal_types()


@cache
def _causal_types() -> frozenset[str]:
    """Model types that the installed transformers can train as causal language models; empty where that is not known.

    Read from the text of its table: importing it would take seconds and belongs to the engine.
    """
    found = find_spec("transformers")
    folder = next(iter(found.submodule_search_locations or ()), None) if found is not None else None
    table = Path(folder, "models", "auto", "modeling_auto.py") if folder is not None else None
    if table is None or not table.is_file():
        return frozenset()
    _, _, rest = table.read_text(encoding="utf-8").partition("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict(")
    entries, _, _ = rest.partition("\n)\n")
    return frozenset(re.findall(r'\("([^"]+)",\s', entries))


def _tokenizer(folder: Path, name: str) -> list[Problem]:
    if any((folder / file).is_file() for file in VOCABULARIES):
        return []
    return [_missing("problem.model-missing.tokenizer", model=name, path=str(folder))]


def _weight_files(folder: Path) -> tuple[tuple[Path, ...], list[Problem]]:
    """The safetensors files of the model, those that the index names included where they are not there."""
    index = folder / INDEX
    if index.is_file():
        try:
            value = read_json(index)
            names = sorted({str(file) for file in value["weight_map"].values()})
        except (BrokenFile, KeyError, TypeError, AttributeError):
            return (), [_missing("problem.model-missing.index", path=str(index))]
        files = tuple(folder / Path(file).name for file in names)
    else:
        files = tuple(sorted(folder.glob("*.safetensors")))
    absent = [file.name for file in files if not file.is_file()]  # a broken link, a pipe or a folder as well
    if absent:
        return files, [_missing("problem.model-missing.shard", file=absent[0], count=len(absent), path=str(folder))]
    if files:
        return files, []
    if next(iter(folder.glob("*.bin")), None) is not None:
        return (), [_refused("pickle", path=str(folder))]
    return (), [_missing("problem.model-missing.weights", path=str(folder))]


def _shapes(files: tuple[Path, ...]) -> tuple[dict[str, tuple[tuple[int, ...], str]], list[Problem]]:
    """Name → (shape, type) of every tensor, and the files that are broken."""
    shapes: dict[str, tuple[tuple[int, ...], str]] = {}
    problems: list[Problem] = []
    for file in files:
        if not file.is_file():
            continue
        try:
            header = read_header(file)
        except BrokenFile as error:
            problems.append(_missing(error.says, **error.params))
            continue
        if header.size < header.promised:
            problems.append(
                _missing("problem.model-missing.cut", file=file.name, size=header.size, promised=header.promised)
            )
        shapes |= {name: (tensor.shape, tensor.dtype) for name, tensor in header.tensors.items()}
    return shapes, problems


def _dtype(config: Mapping[str, Any], dtypes: set[str]) -> str | None:
    """The weights' type as torch names it: of the files where they agree, else of the configuration."""
    names = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
    if len(dtypes) == 1:
        return names.get(next(iter(dtypes)), next(iter(dtypes)))
    return _text(config.get("dtype", config.get("torch_dtype")))


def _has_template(folder: Path) -> bool:
    """Whether transformers will find a chat template."""
    if (folder / TEMPLATE).is_file():
        return True
    path = folder / TOKENIZER_CONFIG
    try:
        value = read_json(path) if path.is_file() else {}
    except BrokenFile:
        return False
    return isinstance(value, dict) and default_template(value.get("chat_template")) is not None


def _two_templates(folder: Path, name: str) -> list[Problem]:
    """A template beside the tokenizer and another one in its settings: transformers takes the first, others may not."""
    beside, settings = folder / TEMPLATE, folder / TOKENIZER_CONFIG
    if not (beside.is_file() and settings.is_file()):
        return []
    try:
        value, text = read_json(settings), beside.read_text(encoding="utf-8")
    except (BrokenFile, UnicodeDecodeError):
        return []  # whoever reads it says so
    inside = default_template(value.get("chat_template")) if isinstance(value, dict) else None
    if inside is None or inside.strip() == text.strip():
        return []
    params: dict[str, Scalar] = {"model": name, "file": TEMPLATE, "other": TOKENIZER_CONFIG}
    return [Problem(code="template-mismatch", severity="warning", field="model.path", params=params)]


def _licence(folder: Path) -> str | None:
    """The licence in the front matter of the folder's README."""
    path = folder / "README.md"
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as stream:
        head = stream.read(4096)
    found = re.search(r"\A---\n(?:.*\n)*?license:[ \t]*[\"']?([\w .-]+)", head)
    return found.group(1).strip() if found else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < LARGEST else None
