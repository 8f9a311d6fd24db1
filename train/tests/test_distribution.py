"""The kernels that distribute indices and pooled rows, against the same in numpy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from armillary.errors import InputError
from armillary_train import _train

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]


@st.composite
def routes(draw: st.DrawFn) -> tuple[list[int], list[list[int]], int, int, str, str]:
    """Rows and ends of features, samples, a seed, and types of lengths and of indices."""
    rows: list[int] = []
    ends: list[list[int]] = []
    for _ in range(draw(st.integers(1, 4))):
        rows.append(draw(st.sampled_from([1, 2, 7, 60, 5000, 2**31 - 1])))
        ways = draw(st.integers(1, min(12, rows[-1])))
        if draw(st.booleans()):
            ends.append([])
        elif draw(st.booleans()):
            ends.append([rows[-1] * way // ways for way in range(1, ways + 1)])
        else:
            places = st.sets(st.integers(1, rows[-1]), min_size=ways - 1, max_size=ways - 1)
            ends.append(sorted({*draw(places), rows[-1]}))
    types = st.sampled_from(["i4", "i8"])
    seed = draw(st.integers(0, 2**32))
    return rows, ends, draw(st.integers(0, 20)), seed, draw(types), draw(types)


@given(routes(), st.sampled_from([3, 12, 300]), st.booleans())
def test_lookups_reach_their_shards_in_order(
    case: tuple[list[int], list[list[int]], int, int, str, str], longest: int, weighted: bool
) -> None:
    rows, ends, samples, seed, of_lengths, of_indices = case
    random = np.random.default_rng(seed)
    lengths = random.integers(0, longest, (len(rows), samples)).astype(of_lengths)
    indices = np.concatenate(
        [random.integers(0, row, each.sum()) for row, each in zip(rows, lengths, strict=True)]
    ).astype(of_indices)
    weights = random.normal(size=len(indices)).astype("f4") if weighted else None
    pairs = [
        (feature, shard)
        for feature, end in enumerate(ends)
        for shard in (range(len(end)) if end else [0] * int(random.integers(0, 3)))
    ]
    segments = [pairs[place] for place in random.permutation(len(pairs))]
    cuts = [("f", "t", row, end) for row, end in zip(rows, ends, strict=True)]
    router = _train.Router(cuts, segments)
    counts = router.count(samples, (lengths, indices, weights))
    bags = np.full((len(segments), samples), -1, "i4")
    sent = np.empty(sum(counts), of_indices)
    sent_weights = np.empty(sum(counts), "f4") if weighted else None
    router.fill((lengths, indices, weights), (bags, sent, sent_weights))
    feature_of = np.repeat(np.repeat(np.arange(len(rows)), samples), lengths.ravel())
    sample_of = np.repeat(np.tile(np.arange(samples), len(rows)), lengths.ravel())
    places = np.cumsum([0, *counts])
    for (feature, shard), bag, (first, last) in zip(segments, bags, pairwise(places), strict=True):
        chosen = feature_of == feature
        start = 0
        if ends[feature]:
            owner = np.searchsorted(ends[feature], indices, "right")
            chosen &= owner == shard
            start = [0, *ends[feature]][shard]
        np.testing.assert_array_equal(sent[first:last], indices[chosen] - start)
        np.testing.assert_array_equal(bag, np.bincount(sample_of[chosen], minlength=samples))
        if sent_weights is not None and weights is not None:
            np.testing.assert_array_equal(sent_weights[first:last], weights[chosen])


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.data(),
    st.sampled_from(["i4", "i8"]),
    st.integers(0, 2**32),
)
def test_blocks_are_permuted_and_repeated(
    sizes: list[int], data: st.DataObject, kind: str, seed: int
) -> None:
    order = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=20))
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 5, sum(sizes)).astype(kind)
    lookups = random.integers(0, 1000, lengths.sum()).astype(kind)
    blocks = _train.Blocks(sizes, lengths, len(lookups))
    bags = np.split(lengths, np.cumsum(sizes)[:-1])
    rows = np.split(lookups, np.cumsum([each.sum() for each in bags])[:-1])
    wanted = [
        np.concatenate([lengths[:0], *(each[place] for place in order)]) for each in (bags, rows)
    ]
    assert blocks.extent(order) == tuple(map(len, wanted))
    found = [np.empty_like(each) for each in wanted]
    blocks.permute_bags(order, lengths, found[0])
    blocks.permute_lookups(order, lookups, found[1])
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])


@given(st.integers(0, 7), st.lists(st.integers(0, 20), min_size=1, max_size=5), st.data())
def test_columns_are_collected_and_spread(
    rows: int, widths: list[int], data: st.DataObject
) -> None:
    width = data.draw(st.integers(1, 40))
    runs = []
    for block, most in enumerate(widths):
        count = data.draw(st.integers(0, min(most, width)))
        start = data.draw(st.integers(0, most - count))
        runs.append((block, start, data.draw(st.integers(0, width - count)), count, True))
    random = np.random.default_rng(rows)
    parts = [random.normal(size=(rows, each)).astype("f4") for each in widths]
    blocks = np.concatenate([np.zeros(0, "f4"), *(part.ravel() for part in parts)])
    batch = random.normal(size=(rows, width)).astype("f4")
    wanted = batch.copy()
    for (_, start, to, count, _), part in zip(runs, parts, strict=True):
        wanted[:, to : to + count] += part[:, start : start + count]
    columns = _train.Columns(width, widths, runs)
    found = batch.copy()
    columns.collect(rows, [part.ravel() for part in parts], found)
    np.testing.assert_array_equal(found, wanted)
    spread = np.zeros_like(blocks)
    assert columns.spread(rows, batch, spread)
    for (_, start, to, count, _), part in zip(runs, parts, strict=True):
        part[:] = 0
        part[:, start : start + count] = batch[:, to : to + count]
    np.testing.assert_array_equal(spread, np.concatenate([spread[:0], *(p.ravel() for p in parts)]))


def test_what_does_not_fit_is_refused() -> None:
    lengths, indices = np.array([1, 2], "i4"), np.array([3, 1, 2], "i8")
    with pytest.raises(InputError, match="length -1 of bag 1"):
        _train.Blocks([2], np.array([1, -1], "i4"), 3)
    with pytest.raises(InputError, match="lengths add up to 3"):
        _train.Blocks([2], lengths, 4)
    blocks = _train.Blocks([1, 1], lengths, 3)
    with pytest.raises(ValueError, match="block 2 of 2"):
        blocks.extent([2])
    with pytest.raises(ValueError, match="arrays of"):
        blocks.permute_lookups([1], indices, np.empty(3, "i8"))
    with pytest.raises(ValueError, match="different types"):
        blocks.permute_lookups([1], indices, np.empty(2, "i4"))
    router = _train.Router([("f", "t", 4, [])], [(0, 0)])
    assert router.count(2, (lengths, indices, None)) == [3]
    with pytest.raises(ValueError, match="room for other than 2 bags of 3 lookups"):
        router.fill((lengths, indices, None), (np.empty(2, "i4"), np.empty(2, "i8"), None))
    with pytest.raises(InputError, match=r'table "t": feature "f": sample 1: index 4'):
        router.count(2, (lengths, np.array([3, 1, 4]), None))
    with pytest.raises(InputError, match="weight NaN"):
        router.count(2, (lengths, indices, np.array([1, np.nan, 1], "f4")))
    with pytest.raises(InputError, match="leaves its block"):
        _train.Columns(3, [2], [(0, 1, 0, 2, False)])
    columns = _train.Columns(3, [2], [(0, 0, 0, 2, False)])
    with pytest.raises(ValueError, match="arrays of"):
        columns.collect(1, [np.zeros(3, "f4")], np.zeros(3, "f4"))
    with pytest.raises(ValueError, match="arrays of"):
        columns.collect(1, [np.zeros(2, "f4"), np.zeros(0, "f4")], np.zeros(3, "f4"))
    assert not columns.spread(1, np.array([1, np.inf, 0], "f4"), np.zeros(2, "f4"))
