from __future__ import annotations

from pathlib import Path

from tests.checkpoints import folders
from tests.checkpoints.folders import faults, found, judged


def test_a_foreign_pickle_warns_and_is_not_run(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    marker = tmp_path / "ran"
    (folder / "pytorch_model.bin").write_bytes(b"cbuiltins\nopen\n(V" + str(marker).encode() + b"\nVw\ntR.")
    verdict = judged(folder)
    assert faults(verdict) == {"check.unsafe-files.pickle": "warn"}
    assert found(verdict, "check.unsafe-files.pickle").params["names"] == "pytorch_model.bin"
    assert not marker.exists()


def test_weights_in_a_pickle_alone_are_a_model_that_cannot_be_judged(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    verdict = judged(folder)
    assert verdict.kind == "full-model"
    assert faults(verdict) == {"check.complete.only-pickle": "warn", "check.unsafe-files.pickle": "warn"}


def test_what_a_training_writes_itself_is_named_and_passes(tmp_path: Path) -> None:
    folder = folders.states(tmp_path / "checkpoint-4")
    for name in ("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "rng_state_1.pth"):
        folders.write_zip(folder / name)
    verdict = judged(folder)
    assert not faults(verdict)
    assert found(verdict, "check.unsafe-files.own").params["count"] == 9


def test_remote_code_is_named_and_not_imported(tmp_path: Path) -> None:
    mapped = {
        "AutoModelForCausalLM": "modeling_x.X",
        "AutoTokenizer": ["tok_y.Y", None],
        "AutoConfig": "other/repo--c.C",
    }
    folder = folders.model(tmp_path / "m", auto_map=mapped)
    (folder / "modeling_x.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    verdict = judged(folder)
    assert faults(verdict) == {"check.unsafe-files.auto-map": "warn", "check.unsafe-files.module": "warn"}
    names = str(found(verdict, "check.unsafe-files.auto-map").params["names"])
    assert names == "modeling_x, other/repo--c, tok_y"
    assert not (tmp_path / "ran").exists()
