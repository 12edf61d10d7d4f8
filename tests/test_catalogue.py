"""What comes with ZeroBoard is really there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from zeroboard.catalogue import DATASETS, DEMO_SPEC, MODELS, bundled_model
from zeroboard.data.judge import judge
from zeroboard.paths import Paths
from zeroboard.planning.models import read_model
from zeroboard.planning.specs import read_spec


def test_bundled_models_are_found_by_their_name(tmp_path: Path) -> None:
    for model in MODELS:
        assert bundled_model(model.name) is model
        assert model.folder(Paths(tmp_path)) == tmp_path / "models" / model.name
    assert bundled_model("no such model") is None


@pytest.mark.parametrize("name", list(DATASETS))
def test_bundled_data_is_good_to_the_last_row(name: str) -> None:
    report = judge(DATASETS[name])
    assert report.usable == report.total >= 60 and report.changed == 0 and report.problems == ()


def test_the_demo_names_what_is_bundled() -> None:
    spec, problems = read_spec(DEMO_SPEC)
    assert problems == () and spec is not None
    assert bundled_model(spec.model.path) is not None and spec.data.path in DATASETS


def test_what_is_said_of_a_bundled_model_is_true_of_its_file(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="the gguf package is not installed")
    for entry in MODELS:
        found = find_spec(entry.module)  # not imported: what it declares as its dependencies is not installed
        if found is None or found.origin is None:
            pytest.skip("the package of the bundled model is not installed")
        (file,) = Path(found.origin).parent.glob(entry.file)
        reader = gguf.GGUFReader(file)
        elements = sum(int(tensor.n_elements) for tensor in reader.tensors)
        facts, _ = read_model(entry.name, Paths(tmp_path))
        assert facts is not None and facts.parameters == elements
        said = {
            "llama.embedding_length": facts.hidden,
            "llama.block_count": facts.layers,
            "llama.context_length": facts.context_length,
        }
        assert {key: int(reader.get_field(key).contents()) for key in said} == said
