"""Readings over time: the last minutes whole, the rest thinned, a large file sampled."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from zeroboard.contract.readings import GpuReading, Reading
from zeroboard.files import append_line, write_atomic
from zeroboard.runs import history
from zeroboard.runs.history import MOST, RECENT, History


def line(at: float, **rest: object) -> str:
    return Reading.model_validate({"time": at, **rest}).model_dump_json()


def test_the_last_minutes_are_whole_and_older_readings_thinned(tmp_path: Path) -> None:
    path = tmp_path / "readings.jsonl"
    write_atomic(path, "".join(line(float(at)) + "\n" for at in range(20_000)))
    kept = [reading.time for reading in History(path).read()]
    recent = [at for at in kept if at >= 19_999 - RECENT]
    older = kept[: -len(recent)]
    assert recent == [float(at) for at in range(19_999 - int(RECENT), 20_000)]
    assert kept == sorted(kept) and older[0] == 0.0 and MOST / 2 <= len(older) <= MOST
    gaps = [later - sooner for sooner, later in itertools.pairwise(older)]
    assert max(gaps) <= 2 * min(gaps) + 1


def test_a_clock_that_goes_back_or_stands_still_does_not_let_it_grow(tmp_path: Path) -> None:
    path = tmp_path / "readings.jsonl"
    write_atomic(path, "".join(line(at) + "\n" for at in [9e9] + [1.0] * 2000 + [float(n) for n in range(1, 4000)]))
    kept = History(path).read()
    assert len(kept) <= MOST + history.RECENT_MOST and kept[-1].time == 3999.0


def test_a_look_reads_only_what_is_new_and_the_same_object_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "readings.jsonl"
    readings = History(path)
    assert readings.read() == ()
    append_line(path, line(1.0, cpu_percent=5.0))
    first = readings.read()
    assert [reading.cpu_percent for reading in first] == [5.0] and readings.read() is first
    with path.open("a") as stream:
        stream.write(line(2.0)[:9])
    assert readings.read() is first
    write_atomic(path, "")
    assert readings.read() == ()


def test_a_large_file_is_sampled_instead_of_read(tmp_path: Path) -> None:
    path = tmp_path / "readings.jsonl"
    gpus = tuple(GpuReading(uuid=f"GPU-{n}", index=n, memory_used=n) for n in range(8))
    one = Reading(time=123456.5, gpus=gpus).model_dump_json()
    count = 3 * history.SKIM // len(one)
    write_atomic(path, "".join(one.replace("123456.5", f"1{at:08d}.5") + "\n" for at in range(count)))
    begin = time.process_time()
    kept = History(path).read()
    assert time.process_time() - begin < 1.0
    times = [reading.time for reading in kept]
    assert times == sorted(times) and times[-1] - times[0] >= count - 2 and len(kept) <= MOST + RECENT + 2
