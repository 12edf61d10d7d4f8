"""All rules together: their order, and what one must know of the other."""

from __future__ import annotations

from tests.diagnosis.run_of import beat, gpu, reading, resolved, spec, step
from zeroboard.diagnosis.live import UNKNOWN, Live
from zeroboard.diagnosis.stall import Patience


def live() -> Live:
    return Live(spec=spec(), resolved=resolved(), patience=Patience(least=50))


def test_what_ends_the_training_stands_before_what_slows_it() -> None:
    rules = live()
    rules.look(beats=(), state="running", now=0.0)
    for number in range(1, 4):
        rules.hear(step(number, loss=None, grad_norm=None))
    hot = gpu(1, throttle=("thermal-hardware",))
    for now in (0.0, 40.0):
        rules.feel([reading(now, hot)], {})
    beats = [beat(0, 5), beat(1, 4)]
    rules.look(beats=beats, state="running", now=0.0)
    found = rules.look(beats=beats, state="running", now=55.0)
    assert [(f.code, f.rank) for f in found] == [("stalled", 1), ("loss-nan", None), ("gpu-throttled", 1)]
    assert rules.look(beats=beats, state="running", now=56.0) == found


def test_gpus_of_a_run_that_stands_still_or_saves_do_not_idle() -> None:
    def idles(state: str, stepping: bool) -> bool:
        rules = live()
        for now in range(0, 400, 5):
            if stepping:
                rules.hear(step(now + 1))
            rules.look(beats=[beat(0, now if stepping else 0, at=now)], state=state, now=float(now))  # type: ignore[arg-type]
            rules.feel([reading(float(now), gpu(0, utilization=3.0))], {})
        return any(f.code == "gpu-idle" for f in rules.look(beats=(), state="running", now=401.0))

    assert idles("running", True)
    assert not idles("saving", True) and not idles("starting", False) and not idles("running", False)


def test_where_readings_end_their_alerts_end() -> None:
    rules = live()
    for now in (0.0, 40.0):
        rules.feel([reading(now, gpu(0, throttle=("thermal-hardware",)))], {})
    assert [f.code for f in rules.look(beats=(), state="starting", now=0.0)] == ["gpu-throttled"]
    assert rules.look(beats=(), state="starting", now=UNKNOWN - 1)
    assert rules.look(beats=(), state="starting", now=UNKNOWN + 1) == ()
