"""Traces of `armillary train --trace`: parts of a step and exchanges, with times by arithmetic."""

from __future__ import annotations

from pathlib import Path

from recorded import Recording, step_us

from armillary.workload.importer import Imported, import_traces

BYTES = 200_000_000
"""Half of it takes 1,000 us at 100 GB/s."""


def rank(number: int, begin: float) -> Recording:
    """Work up to `begin`, when the exchange begins; what it brings is here at 805 us."""
    trace = Recording(number, 2)
    trace.step(1, 0, 1000)
    trace.annotation("data", 0, 100)
    trace.annotation("bottom.0.forward", 100, begin)
    trace.annotation(f"exchange:begin embedding.forward all_to_all 7 {BYTES}", begin, begin + 10)
    trace.annotation("top.0.forward", begin + 10, max(600, begin + 10))
    trace.op("aten::linear", begin + 10, max(600, begin + 10))
    trace.annotation("exchange:wait 7", max(600, begin + 10), 805)
    trace.annotation("embedding.weight_gradient", 805, 900)
    return trace


def imported(tmp_path: Path) -> Imported:
    paths = [rank(r, begin).write(tmp_path / f"rank{r}.json") for r, begin in ((0, 300), (1, 790))]
    return import_traces(paths)


def test_a_replay_has_the_recorded_times(tmp_path: Path) -> None:
    result = imported(tmp_path)
    assert step_us(result) == 1000
    assert [row.host_ps // 10**6 for row in result.ranks] == [1000 - 205, 1000 - 5]
    assert [row.waited_ps // 10**6 for row in result.ranks] == [205, 5]
    assert not any("replay" in note for note in result.notes)


def test_exchanges_meet_on_the_network(tmp_path: Path) -> None:
    """The last rank begins at 790 us, bytes take 1,000 us, and 195 us of work follow."""
    assert 0 <= step_us(imported(tmp_path), replay=False) - (790 + 1000 + 195) < 5


def test_an_exchange_of_the_step_before_begins_with_the_step(tmp_path: Path) -> None:
    paths = []
    for number in (0, 1):
        trace = Recording(number, 2)
        trace.step(1, 0, 100)
        trace.annotation("data", 0, 50)
        trace.annotation(f"exchange:begin indices.forward all_to_all 3 {BYTES}", 60, 70)
        trace.step(2, 100, 200)
        trace.annotation("data", 100, 110)
        trace.annotation("exchange:wait 3", 110, 120)
        trace.annotation("exchange:begin meeting all_to_all 4 16", 130, 135)
        paths.append(trace.write(tmp_path / f"rank{number}.json"))
    result = import_traces(paths, step=2)
    assert step_us(result) == 100
    assert 0 <= step_us(result, replay=False) - (1000 + 80) < 5
