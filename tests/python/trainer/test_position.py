"""Where a source of data goes on: exactly behind the samples that were trained on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_criteo import ROWS, written

from armillary.trainer import loop
from armillary.trainer.data import START, Part, Position, Source
from armillary.trainer.data.criteo import Criteo, Lines
from armillary.trainer.data.synthetic import Synthetic
from armillary.trainer.loop import Outcome
from armillary.trainer.settings import Settings
from armillary.trainer.world import World

SAMPLES = 47


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    folder = tmp_path_factory.mktemp("logs")
    files = tuple(
        Lines(
            written(folder / f"day_{day}", range(day * 20, min(SAMPLES, day * 20 + 20)), day == 1)
        )
        for day in range(3)
    )
    made = Synthetic([10, 20], [1, 3], seed=3).over(1000, SAMPLES)
    return [made, Criteo(files, ROWS)]


def rows(parts: list[Part]) -> list[bytes]:
    """The samples one by one."""
    return [
        each.tobytes() + label.tobytes()
        for part in parts
        for each, label in zip(part.samples.dense, part.samples.labels, strict=True)
    ]


@given(
    st.integers(0, SAMPLES),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 3),
    st.integers(1, 3),
)
@settings(max_examples=25, deadline=None)
def test_a_pass_goes_on_at_any_sample(
    sources: list[Source], cut: int, batch: int, other: int, ranks: int, then: int
) -> None:
    """Another number of ranks and another batch behind it change nothing."""
    for source in sources:
        whole = rows(list(source.parts(SAMPLES, 0, 1)))
        begun = [list(source.parts(batch, rank, ranks)) for rank in range(ranks)]
        done = [[p for p in each if p.after.sample <= cut] for each in begun]
        start = done[0][-1].after if done[0] else START
        assert {part.after for each in done for part in each[-1:]} == (
            {start} if done[0] else set()
        )
        rest = [list(source.parts(other, rank, then, start)) for rank in range(then)]
        before = [b for at in range(len(done[0])) for each in done for b in rows([each[at]])]
        behind = [b for at in range(len(rest[0])) for each in rest for b in rows([each[at]])]
        assert before + behind == whole
        assert len(before) == start.sample


def test_a_run_goes_on_over_passes(sources: list[Source]) -> None:
    """Wherever it was cut: within a pass, at its end, in the next one."""
    config = Settings("", steps=9, batch=15)
    for source in sources:
        whole = list(loop._parts(source, config, World(), 9, Outcome()))
        assert [p.after.epoch for p in whole] == [0, 0, 0, 0, 1, 1, 1, 1, 2]
        for done in range(1, 9):
            outcome = Outcome(steps=done, position=whole[done - 1].after)
            rest = list(loop._parts(source, config, World(), 9, outcome))
            assert rows(rest) == rows(whole[done:])
        once = replace(config, steps=None)
        last = list(loop._parts(source, once, World(), None, Outcome()))[-1].after
        assert last == Position(0, SAMPLES)
        ended = Outcome(steps=4, position=last)
        assert not list(loop._parts(source, once, World(), None, ended))


def test_positions_are_json() -> None:
    place = Position(3, 2**45)
    assert Position.from_dict(json.loads(json.dumps(place.as_dict()))) == place
    wrongs: list[object] = [None, 3, {"epoch": 1}, {"epoch": -1, "sample": 0}]
    for wrong in [*wrongs, {"epoch": 0, "sample": 1.0}]:
        with pytest.raises(ValueError, match="not a position"):
            Position.from_dict(wrong)


def test_data_has_an_identity(tmp_path: Path) -> None:
    one = Criteo((Lines(written(tmp_path / "a", range(9))),), ROWS)
    same = Criteo((Lines(tmp_path / "a"),), ROWS)
    assert one.identity == same.identity
    names = {
        one.identity,
        Criteo((Lines(tmp_path / "a", 1),), ROWS).identity,
        Criteo((Lines(written(tmp_path / "b", range(9))),), ROWS).identity,
        Synthetic([10, 20], [1, 3], seed=3).identity,
        Synthetic([10, 20], [1, 3], seed=4).identity,
    }
    assert len(names) == 5
