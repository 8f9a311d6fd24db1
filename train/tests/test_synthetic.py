"""Made-up clicks: the same for every reader, distributed as said, and learnable by their bound."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import usually

from armillary_train.data.samples import Samples, share
from armillary_train.data.synthetic import SKEW, Ranks, Synthetic
from armillary_train.net import metrics

ROWS, POOLING = (50_000, 7, 300, 1), (3, 1, 2, 1)


def made(**given: int | float) -> Synthetic:
    return Synthetic(ROWS, POOLING, **{"seed": 5, **given})  # type: ignore[arg-type]


@cache
def source() -> Synthetic:
    return made()


@cache
def again() -> Synthetic:
    return made()


def columns(samples: Samples) -> list[np.ndarray]:
    """Every array with a row for each sample."""
    count, place = len(samples), 0
    found: list[np.ndarray] = [samples.dense, samples.labels]
    for pooling in POOLING:
        part = samples.indices[place : place + pooling * count]
        found.append(part.reshape(count, pooling))
        place += pooling * count
    assert place == len(samples.indices)
    return found


def equal(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(*each) for each in zip(one, other, strict=True))


@given(st.integers(0, 2**41), st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=usually(20, 400), deadline=None)
def test_a_sample_is_the_same_whoever_draws_it(first: int, before: int, count: int) -> None:
    whole = columns(source().samples(first, before + count))
    part = columns(again().samples(first + before, count))
    assert equal([each[before:] for each in whole], part)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_ranks_share_every_batch(ranks: int) -> None:
    """Also the last one, which is smaller and leaves some ranks without samples."""
    cut = source().over(1000, 103)
    whole = columns(cut.samples(1000, 103))
    parts = [list(cut.parts(50, rank, ranks)) for rank in range(ranks)]
    assert {tuple(part.whole for part in each) for each in parts} == {(50, 50, 3)}
    ordered = [parts[rank][batch] for batch in range(3) for rank in range(ranks)]
    joined = [
        np.concatenate(each) for each in zip(*(columns(p.samples) for p in ordered), strict=True)
    ]
    assert equal(joined, whole)
    assert ordered[0].first == 1000


@given(st.integers(0, 1000), st.integers(1, 40))
def test_shares(whole: int, ranks: int) -> None:
    shares = [share(whole, rank, ranks) for rank in range(ranks)]
    assert [each for part in shares for each in part] == list(range(whole))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_seeds_differ() -> None:
    assert not np.array_equal(source().samples(0, 50).labels, made(seed=6).samples(0, 50).labels)


def test_ids_follow_the_power_law_and_fill_the_table() -> None:
    samples = source().samples(0, 50_000)
    ids = columns(samples)[2][:, 0]
    assert ids.min() >= 0 and ids.max() < ROWS[0]
    counts = np.sort(np.bincount(ids))[::-1]
    mass = np.arange(1, ROWS[0] + 1.0) ** -SKEW
    expected = mass / mass.sum()
    for rank in (0, 1, 4, 9):
        assert counts[rank] / 50_000 == pytest.approx(expected[rank], rel=0.1)
    assert set(columns(samples)[3][:, 0]) == set(range(7))


def test_ranks_behind_the_table_of_sums_follow_the_same_law() -> None:
    """Few ranks have a probability of their own in memory, the others are drawn by an integral."""
    grid = (np.arange(2_000_000) + 0.5) / 2_000_000
    ranks = Ranks(ROWS[0]).draw(grid)
    mass = np.arange(1, ROWS[0] + 1.0) ** -SKEW
    expected = np.cumsum(mass) / mass.sum()
    for rank in (0, 100, 4094, 4095, 4096, 4097, 20_000, ROWS[0] - 1):
        assert (ranks <= rank).mean() == pytest.approx(expected[rank], abs=2e-6)


def test_an_id_fixes_its_bag() -> None:
    bags = columns(source().samples(0, 2000))[2]
    assert len({tuple(bag) for bag in bags}) == len(set(bags[:, 0]))
    assert (bags < ROWS[0]).all() and (bags >= 0).all()


@pytest.mark.parametrize("rate", [0.033, 0.2562])
def test_the_mean_of_labels_is_the_positive_rate(rate: float) -> None:
    source = made(positive_rate=rate)
    assert source.samples(0, 100_000).labels.mean() == pytest.approx(rate, rel=0.04)


def test_tables_of_one_row_tell_nothing() -> None:
    """The logits are those of the counts, whose spread is the teacher's."""
    source = Synthetic([1, 1], [1, 2])
    logits = source.bound(0, 20_000)
    assert logits.std() == pytest.approx(source.teacher.dense_spread, rel=0.05)
    assert source.samples(0, 20_000).labels.mean() == pytest.approx(0.2562, abs=0.015)


def test_no_prediction_beats_the_bound() -> None:
    """The teacher's probabilities are right, so that they score better than those that are bent."""
    logits, labels = source().bound(0, 40_000), source().samples(0, 40_000).labels
    best = metrics.exact(logits, labels)
    assert best.ne < 0.85
    assert best.calibration == pytest.approx(1, abs=0.03)
    for bent in (logits * 1.1, logits * 0.9, logits + 0.1, np.sinh(logits)):
        assert metrics.exact(bent, labels).loss > best.loss


def test_counts_are_counts() -> None:
    dense = source().samples(0, 2000).dense
    counts = np.exp(dense.astype(np.float64)) - 3
    assert np.allclose(counts, np.rint(counts), atol=1e-3 * np.maximum(1, counts))
    assert (np.rint(counts) == 0).any(axis=0).all()
