from __future__ import annotations

from pathlib import Path

from zeroboard.contract.beats import Beat, read_beats
from zeroboard.paths import RunPaths


def test_beats_come_in_the_order_of_ranks_and_strange_files_are_left_out(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert read_beats(run) == ()
    run.beats.mkdir()
    given = [
        Beat(rank=rank, host="h", pid=7, step=rank, where="forward", moves=3, moved=1.5, time=2.5)
        for rank in (0, 2, 10)
    ]
    for beat in reversed(given):
        (run.beats / f"rank_{beat.rank}.json").write_text(beat.model_dump_json())
    (run.beats / "rank_5.json").write_text("{half")
    (run.beats / ".rank_7.json.tmp").write_text(given[0].model_dump_json())
    assert read_beats(run) == tuple(given)
