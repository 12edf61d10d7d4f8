"""Charts: one size, axes that only grow, gaps and peaks that stay, and words for those who do not see them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from tests.ui import scripted
from tests.ui.test_views import whole
from zeroboard.paths import Paths
from zeroboard.runs.series import Series
from zeroboard.runs.snapshot import Snapshot, SnapshotReader
from zeroboard.ui.views import charts, curves, numbers
from zeroboard.ui.views.charts import Axes, Line, Point

WORDS = {"title": "Loss", "words": "", "empty": "none yet"}


def drawn(points: list[Point], **axes: float) -> str:
    return str(charts.line_chart([Line(points=points)], Axes(x_label="step", **axes), **WORDS))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    run = scripted.planned(Paths(tmp_path_factory.mktemp("cache")))
    scripted.running(run)
    return SnapshotReader(run).read()


def test_a_chart_keeps_its_size_and_survives_gaps() -> None:
    sizes = set()
    many: list[Point] = [(n, float(n % 7)) for n in range(5000)]
    for points in ([], [(1, 2.0)], [(1, 2.0), (2, None), (3, 2.0)], many):
        page = drawn(points)  # type: ignore[arg-type]
        sizes.add(re.search(r'viewBox="[^"]*"', page)[0])  # type: ignore[index]
        assert len(page) < 12_000
        assert "nan" not in page
    assert len(sizes) == 1
    gap = drawn([(1, 1.0), (2, None), (3, 1.0)])
    assert gap.count("<polyline") == 2 and gap.count('class="gap"') == 1


def test_thinning_keeps_the_ends_the_peak_and_the_gap() -> None:
    points: list[Point] = [(float(n), 1.0) for n in range(200_000)]
    points[123_456], points[77_777] = (123_456.0, 99.0), (77_777.0, None)
    kept = charts.thin(points)
    assert len(kept) <= charts.MOST
    assert {points[0], points[-1], points[123_456], points[77_777]} <= set(kept)
    assert kept == sorted(kept, key=lambda p: p[0])


def test_the_axis_moves_only_to_grow_and_seldom() -> None:
    values = [3.1 * 0.93**n + 0.4 + 0.1 * (n % 3) for n in range(200)]
    ends = [charts.y_axis(values[: n + 1])[:2] for n in range(200)]
    assert len(set(ends)) <= 4
    spans = [high - low for low, high in ends]
    assert spans == sorted(spans)
    assert all(low <= min(values[: n + 1]) and high >= max(values[: n + 1]) for n, (low, high) in enumerate(ends))


def test_an_axis_that_is_held_does_not_move_at_all() -> None:
    rates = [1e-3 * n / 50 for n in range(51)]
    assert {charts.y_axis(rates[: n + 1], 0.0, 1e-3)[:2] for n in range(51)} == {(0.0, 1e-3)}


@pytest.mark.parametrize("values", [[0.0], [1e-9, 1e9], [-3.0, 2.0], [5.0, 5.0, 5.0], [1e30]])
def test_any_values_have_an_axis(values: list[float]) -> None:
    low, high, ticks = charts.y_axis(values)
    assert low <= min(values) <= max(values) <= high and low < high
    assert 2 <= len(ticks) <= 8


def test_the_x_axis_is_the_planned_steps_from_the_first_point_on() -> None:
    first = re.findall(r">([\d,]+)</text>", drawn([(1, 2.0)], x_end=7200.0))
    later = re.findall(r">([\d,]+)</text>", drawn([(n, 2.0) for n in range(1, 7000)], x_end=7200.0))
    assert "6,000" in first and [t for t in first if "," in t] == [t for t in later if "," in t]


def test_the_charts_say_in_words_what_they_draw(shown: Snapshot) -> None:
    page = whole(curves.charts(shown, shown.history, "en", rate=1e-3))
    assert page.count('role="img"') == 5
    labels = re.findall(r'aria-label="([^"]*)"', page)
    assert all("Last" in label for label in labels)
    assert "lowest" in labels[0] and "Evaluation loss last" in labels[0]
    assert page.count('class="point"') == len(shown.series.evaluation)
    assert "rank 1" in page and "samples/s" in page


def test_mfu_stands_beside_the_tokens_where_it_is_known(shown: Snapshot) -> None:
    series = dataclasses.replace(shown.series, mfu=((1, 0.2), (2, 0.413)))
    page = whole(curves.charts(dataclasses.replace(shown, series=series), (), "en"))
    assert "MFU 41.3 %" in page and "6·P" in page
    assert "MFU" not in curves.charts(shown, (), "en")


def test_a_loss_that_became_nan_is_marked_and_told(shown: Snapshot) -> None:
    series = Series(loss=((1, 2.0), (2, None), (3, None)), smoothed=((1, 2.0), (2, None), (3, None)))
    page = whole(curves.charts(dataclasses.replace(shown, series=series), (), "en"))
    assert 'class="gap"' in page and "2 values are missing, NaN or infinite" in page


def test_readings_are_drawn_five_seconds_at_a_time(shown: Snapshot) -> None:
    history = [scripted.reading(1000.0 + n) for n in range(60)]
    lengths = [len(curves.settled(history[: n + 1])) for n in range(60)]
    assert len(set(lengths)) == 12 and lengths[-1] == 56


def test_of_several_gpus_the_mean_is_drawn_as_well() -> None:
    gap = [[(0.0, 80.0), (1.0, None), (2.0, None)], [(0.0, 60.0), (1.0, 50.0), (2.0, None)]]
    assert curves.mean(gap) == [(0.0, 70.0), (1.0, 50.0), (2.0, None)]
    history = [scripted.reading(1000.0 + n, scripted.EIGHT) for n in range(9)]
    page = whole(curves.machine_card(history, "en"))
    assert page.count("<polyline") == 9 and page.count('class="raw"') == 8 and "each GPU" in page
    assert "GPU utilisation" in curves.machine_card((), "en", gpus=True)
    assert "CPU utilisation" in curves.machine_card((), "en")


def test_bars_are_to_the_scale_of_a_gpu_where_that_is_known(shown: Snapshot) -> None:
    peaks = {rank: (40 + rank) << 30 for rank in range(12)}
    history = (scripted.reading(1000.0, scripted.EIGHT),)
    page = whole(curves.charts(dataclasses.replace(shown, peaks=peaks, history=history), history, "en"))
    assert "width:50.0%" in page and "bars to 80.0 GiB, a GPU" in page and "zb-peaks pairs" in page
    assert "the highest" in curves.charts(shown, (), "en")


def test_figures_of_an_axis_are_short(tmp_path: Path) -> None:
    assert [numbers.short(value) for value in (842.0, 12_500.0, 1_200_000.0)] == ["842", "12.5k", "1.2M"]
    assert [numbers.clock(value) for value in (30, 725, 11_100)] == ["0:30", "12:05", "3:05:00"]
