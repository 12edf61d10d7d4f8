"""Loading a result again: a full model, or a base with its adapter. Shared by the verbs `verify` and `chat`.

Covered: only local folders and only safetensors are read; what was missing, left over or of another shape is told; a
model that does not fit into memory is not loaded. Not covered: quantised bases that need a GPU's kernels.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil
import torch
from peft import PeftConfig, PeftModel, get_peft_model_state_dict
from transformers import AutoModelForCausalLM, PreTrainedTokenizerBase

from zeroboard.checkpoints.base import find_base
from zeroboard.checkpoints.folder import Folder, list_folder
from zeroboard.checkpoints.inspect import ADAPTER_CONFIG, kind_of
from zeroboard.checkpoints.targets import EMBEDDING, OUTPUT
from zeroboard.checkpoints.tokenizer import has_tokenizer
from zeroboard.checkpoints.verify import verify_files
from zeroboard.checkpoints.weights import ADAPTER, model_files
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.engine.rendering import ensure_template
from zeroboard.engine.tokens import load_tokenizer
from zeroboard.errors import BrokenFile, NotFound
from zeroboard.headers import read_header

SPARE = 512 << 20
"""Bytes kept free beside the weights: activations, caches, the process itself."""

MESSAGES_KEPT = 10
"""Warnings of the libraries that are reported."""

OnStep = Callable[[str, float], None]
"""Told what is being loaded (a message key) and how far the loading is, 0 to 1."""


class CannotLoad(Exception):
    """The folder cannot be loaded; `problem` says why. `damaged`: the folder is at fault, not this machine."""

    def __init__(self, code: str, says: str, *, damaged: bool = True, **params: Scalar) -> None:
        self.problem = Problem(code=code, says=says, params=params)
        self.damaged = damaged
        super().__init__(f"{says} {params}")


@dataclass(slots=True)
class Loaded:
    """A model that can answer."""

    model: Any
    """A `PreTrainedModel`, or a `PeftModel` around one; in evaluation mode."""
    tokenizer: PreTrainedTokenizerBase
    device: str
    template: Literal["model", "chatml"]
    adapter: bool
    base_folder: Folder | None = None
    """For a full model: the model that it was before, where the caller knows it."""
    trust_remote_code: bool = False
    """For that model too."""
    base: Any = None
    """That model, once `load_base` was called."""
    missing: tuple[str, ...] = ()
    """Weights that no file held; they are random now."""
    unexpected: tuple[str, ...] = ()
    """Weights in the files that found no place."""
    mismatched: tuple[str, ...] = ()
    """Weights whose shape is another one in the files."""
    messages: list[str] = field(default_factory=list)
    """What the libraries warned of while loading."""

    @contextmanager
    def before(self) -> Iterator[Any]:
        """The model as it was before training: adapter off, or the base of a full model (loaded now if need be).

        Raises `CannotLoad`.
        """
        if self.adapter:
            with self.model.disable_adapter():
                yield self.model
            return
        if self.base is None:
            self.base = load_base(self)
        yield self.base


def load_result(path: Path, base: Path | None, *, trust_remote_code: bool = False, on_step: OnStep) -> Loaded:
    """Load an adapter on its base, or a full model (whose `base` is only remembered).

    Raises `CannotLoad`, whatever is wrong with the folder, and nothing else.
    """
    try:
        return _load_result(path, base, trust_remote_code, on_step)
    except CannotLoad as error:
        raise _explained(error, path, base) from error


def _explained(error: CannotLoad, path: Path, base: Path | None) -> CannotLoad:
    """Where a library gave up in words of its own: the check of the files that failed, if there is one."""
    if error.problem.says != "load.failed":
        return error
    checks = verify_files(path, base=base, values=False).checks
    faults = [check for check in checks if check.verdict == "fail"]
    return CannotLoad("model-unsupported", faults[0].says, damaged=True, **faults[0].params) if faults else error


def _load_result(path: Path, base: Path | None, trust_remote_code: bool, on_step: OnStep) -> Loaded:
    try:
        folder = list_folder(path)
    except NotFound as error:
        raise CannotLoad("model-missing", "load.missing", path=str(path)) from error
    kind = kind_of(folder)
    if kind not in ("lora-adapter", "full-model") or folder.loose:
        raise CannotLoad("model-unsupported", "load.not-a-model", path=str(path))
    model_folder = folder if kind == "full-model" else find_model(folder, base)
    device, dtype = choose_place(model_folder)
    home = folder if has_tokenizer(folder) else model_folder
    with _collected() as messages:
        on_step("load.tokenizer", 0.0)
        tokenizer = find_tokenizer(home, trust_remote_code)
        on_step("load.weights", 0.1)
        model, info = load_model(model_folder, device, dtype, trust_remote_code)
        loaded = Loaded(
            model=model,
            tokenizer=tokenizer,
            device=device,
            template=ensure_template(tokenizer),
            adapter=kind == "lora-adapter",
            trust_remote_code=trust_remote_code,
            missing=_names(info, "missing_keys"),
            unexpected=_names(info, "unexpected_keys"),
            mismatched=_names(info, "mismatched_keys"),
        )
        if loaded.adapter:
            on_step("load.adapter", 0.8)
            _put_adapter(loaded, folder)
        elif base is not None and base.is_dir():
            loaded.base_folder = list_folder(base)
    loaded.messages = messages[:MESSAGES_KEPT]
    on_step("load.done", 1.0)
    return loaded


def load_base(loaded: Loaded) -> Any:
    """The model that a full model was before, wherever there is room. Raises `CannotLoad`."""
    if loaded.base_folder is None:
        raise CannotLoad("model-missing", "load.base-unknown", damaged=False)
    model, _ = load_model(loaded.base_folder, *choose_place(loaded.base_folder), loaded.trust_remote_code)
    return model


def find_tokenizer(home: Folder, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer in a folder. Raises `CannotLoad`."""
    if not has_tokenizer(home):
        raise CannotLoad("model-unsupported", "load.no-tokenizer", path=str(home.path))
    with _as_problem(home):
        return load_tokenizer(home.path, trust_remote_code=trust_remote_code)


def load_model(
    folder: Folder, device: str, dtype: torch.dtype, trust_remote_code: bool = False
) -> tuple[Any, dict[str, Any]]:
    """A causal language model in evaluation mode, and what transformers says of its keys. Raises `CannotLoad`."""
    if not model_files(folder):
        raise CannotLoad("model-unsupported", "load.no-safetensors", path=str(folder.path))
    with _as_problem(folder):
        found: Any = AutoModelForCausalLM.from_pretrained(
            folder.path,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
        )
        model, info = found
        return model.to(device).eval(), info


def _put_adapter(loaded: Loaded, folder: Folder) -> None:
    with _as_problem(folder):
        config = PeftConfig.from_pretrained(str(folder.path))
        config.inference_mode = True
        _resize(loaded.model, folder)
        tuned = PeftModel.from_pretrained(loaded.model, str(folder.path), config=config, torch_device=loaded.device)
        known = set(get_peft_model_state_dict(tuned, save_embedding_layers=False))
        there = set(read_header(folder.path / ADAPTER).tensors)
    # peft adds embeddings to the file by itself when the vocabulary was resized; they are loaded as the base's own
    left = {name for name in there - known if not name.endswith(("embed_tokens.weight", "lm_head.weight"))}
    loaded.model = tuned.eval()
    loaded.missing += tuple(sorted(known - there))
    loaded.unexpected += tuple(sorted(left))


def _resize(model: Any, folder: Folder) -> None:
    """Give the base the vocabulary that the adapter brings embeddings for."""
    for name, tensor in read_header(folder.path / ADAPTER).tensors.items():
        plain = name.replace(".base_layer.", ".").replace(".original_module.", ".")
        module, _, what = plain.rpartition(".")
        ends = module.rsplit(".", 1)[-1]
        if what == "weight" and ends in (*EMBEDDING, *OUTPUT) and len(tensor.shape) == 2:
            if tensor.shape[0] != model.get_input_embeddings().weight.shape[0]:
                model.resize_token_embeddings(tensor.shape[0], mean_resizing=False)
            return


def find_model(folder: Folder, given: Path | None) -> Folder:
    """The folder of an adapter's base. Raises `CannotLoad`."""
    named = (folder.json(ADAPTER_CONFIG).value or {}).get("base_model_name_or_path")
    named = named if isinstance(named, str) else None
    path = find_base(named, given)
    if path is None or not path.is_dir():
        raise CannotLoad("model-missing", "load.base-gone", damaged=False, base=str(given or named or "?"))
    return list_folder(path)


def choose_place(folder: Folder) -> tuple[str, torch.dtype]:
    """Device and type of the weights of a model: the GPU if they fit there, else the CPU.

    The CPU computes float32 faster than 16 bit, so it gets float32 unless only the stored type fits. Raises
    `CannotLoad` (not `damaged`) where nothing fits.
    """
    elements, stored = _stored(folder)
    if torch.cuda.is_available():
        free = torch.cuda.mem_get_info()[0]
        if elements * stored.itemsize + 2 * SPARE <= free:
            return "cuda", stored
    room = available_memory() - SPARE
    for dtype in dict.fromkeys((torch.float32, stored)):
        if elements * dtype.itemsize <= room:
            return "cpu", dtype
    needed, available = (f"{size / 2**30:,.1f} GiB" for size in (elements * stored.itemsize, max(room, 0)))
    raise CannotLoad("host-memory", "load.no-memory", damaged=False, needed=needed, available=available)


def available_memory() -> int:
    """Bytes that this process may still take: of the machine, and of its control group where that has a limit."""
    room = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())
        room = min(room, limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):  # no control group, or one without a limit ("max")
        return room
    return room


_TORCH = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}


def stored_type(folder: Folder) -> torch.dtype:
    """The type in which most of a model's weights are stored. Raises `CannotLoad`."""
    return _stored(folder)[1]


def _stored(folder: Folder) -> tuple[int, torch.dtype]:
    """Elements of a model's weights, and the type in which most of them are stored."""
    by_type: dict[str, int] = {}
    for name in model_files(folder):
        try:
            header = read_header(folder.path / name)
        except BrokenFile as error:
            raise _broken(error) from error
        except OSError as error:
            raise CannotLoad("model-unsupported", "load.failed", path=str(folder.path), why=str(error)) from error
        for tensor in header.tensors.values():
            by_type[tensor.dtype] = by_type.get(tensor.dtype, 0) + tensor.elements
    most = max(by_type, key=by_type.__getitem__, default="F32")
    return sum(by_type.values()), _TORCH.get(most, torch.float32)


def _names(info: dict[str, Any], key: str) -> tuple[str, ...]:
    return tuple(sorted(str(n[0]) if isinstance(n, tuple) else str(n) for n in info.get(key) or ()))


@contextmanager
def _as_problem(folder: Folder) -> Iterator[None]:
    """Whatever a foreign folder makes the libraries raise is the finding."""
    try:
        yield
    except BrokenFile as error:
        raise _broken(error) from error
    except torch.OutOfMemoryError as error:
        raise CannotLoad("gpu-busy", "load.no-gpu-memory", damaged=False) from error
    except Exception as error:
        why = f"{type(error).__name__}: {error}".strip()
        raise CannotLoad("model-unsupported", "load.failed", path=str(folder.path), why=why[:500]) from error


def _broken(error: BrokenFile) -> CannotLoad:
    """A file of ours to judge has its own sentence."""
    params: dict[str, Scalar] = {name: v if isinstance(v, (int, float)) else str(v) for name, v in error.params.items()}
    return CannotLoad("model-unsupported", error.says, damaged=True, **params)


class _Collector(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage()[:500])


@contextmanager
def _collected() -> Iterator[list[str]]:
    """Warnings and log records of the libraries; announcements of changes to come are left out."""
    messages: list[str] = []
    handler = _Collector(messages)
    loggers = [logging.getLogger(name) for name in ("transformers", "peft")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield messages
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
        about_change = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
        messages += [str(w.message)[:500] for w in caught if not issubclass(w.category, about_change)]
