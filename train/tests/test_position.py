"""Where a source of data goes on: exactly behind the samples that were trained on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_criteo import ROWS, written
from thorough import usually

from armillary.errors import InputError
from armillary_train.data import START, Part, Position, Source
from armillary_train.data.criteo import Criteo, Lines
from armillary_train.data.synthetic import Synthetic
from armillary_train.ranks.world import World
from armillary_train.run.length import Length, batches
from armillary_train.run.loop import Outcome
from armillary_train.settings import Settings

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
    found = []
    for samples in (part.samples for part in parts):
        ends = samples.lengths.cumsum().reshape(samples.lengths.shape)
        for at, (dense, label) in enumerate(zip(samples.dense, samples.labels, strict=True)):
            ids = [
                samples.indices[end - length : end].tolist()
                for end, length in zip(ends[:, at], samples.lengths[:, at], strict=True)
            ]
            found.append(repr((ids, dense.tolist(), float(label))).encode())
    return found


@given(
    st.integers(0, SAMPLES),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 3),
    st.integers(1, 3),
)
@settings(max_examples=usually(12, 250), deadline=None)
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
    config = Settings("", steps=9, global_batch=15)
    end = Length.of(config, sources[0])
    for source in sources:
        whole = list(batches(source, config, World(), end, Outcome()))
        assert [p.after.epoch for p in whole] == [0, 0, 0, 0, 1, 1, 1, 1, 2]
        for done in range(1, 9):
            outcome = Outcome(steps=done, position=whole[done - 1].after)
            rest = list(batches(source, config, World(), end, outcome))
            assert rows(rest) == rows(whole[done:])
        once = replace(config, steps=None)
        one_pass = Length.of(once, source)
        last = list(batches(source, once, World(), one_pass, Outcome()))[-1].after
        assert last == Position(0, SAMPLES)
        ended = Outcome(steps=4, samples=SAMPLES, position=last)
        assert not list(batches(source, once, World(), one_pass, ended))


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_number_of_samples_is_exact(sources: list[Source], ranks: int) -> None:
    """Over passes whose last batch is smaller, and after a run that ended with a smaller batch:
    each sample once in each pass, in its order, and none behind the last one."""

    class Rank(World):
        def same_batch(self, samples: int) -> None:
            """All ranks are in this process."""

    def rest(source: Source, samples: int, course: Outcome) -> list[list[Part]]:
        config = Settings("", samples=samples, global_batch=15)
        end = Length.of(config, source)
        return [
            list(batches(source, config, Rank(each, ranks), end, course)) for each in range(ranks)
        ]

    def joined(of_ranks: list[list[Part]]) -> list[bytes]:
        return [
            row for batch in zip(*of_ranks, strict=True) for part in batch for row in rows([part])
        ]

    for source in sources:
        one_pass = rows(list(source.parts(SAMPLES, 0, 1)))
        wanted = (one_pass * 3)[: 2 * SAMPLES + 23]
        whole = rest(source, len(wanted), Outcome())
        assert joined(whole) == wanted
        assert sum(part.whole for part in whole[0]) == len(wanted)
        assert whole[0][-1].after == Position(2, 23)
        for short in (1, 37, SAMPLES, SAMPLES + 16, len(wanted) - 1):
            first = rest(source, short, Outcome())
            course = Outcome(short, len(first[0]), position=first[0][-1].after)
            assert joined(first) + joined(rest(source, len(wanted), course)) == wanted
        with pytest.raises(InputError, match="of sample 38, behind the end at sample 37"):
            rest(source, 37, Outcome(38, 1, position=Position(0, 38)))


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
