"""Synthetic click logs like Criteo's, with a hidden teacher, so that the best possible score is
known.

Here: the generator and the teacher. Not here: real logs (`criteo.py`), scores (`net/metrics.py`).

Sample `i` of a seed is the same whoever draws it and however many are drawn at once: its random
numbers are consecutive outputs of Philox (Salmon et al., SC 2011), `k` for each sample, from output
`k i`.

    categories   id = permuted rank; P(rank) ~ rank^-1.05 over the rows of the table. A sample with
                 `pooling` lookups reads the id and `pooling - 1` rows that the id fixes, as in
                 MLPerf's multi-hot map (mlcommons/training, recommendation_v2)
    counts       13 whole numbers, log-normal, each empty in a fixed share of samples
    label        Bernoulli(sigmoid(teacher)), with a given mean

The teacher adds what frequent ids are worth, products of what pairs of ids are worth, and functions
of the counts. Ids behind the `known` first ranks are worth nothing, so that a few hundred thousand
samples are enough to learn what there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, ndtri

from .samples import (
    ALL,
    DENSE,
    START,
    Part,
    Position,
    Samples,
    Turn,
    identity,
    logarithms,
    narrowed,
    share,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

SKEW = 1.05
"""Exponent of the ranks: NVIDIA's benchmarks of dynamic embeddings use 1.05."""

POSITIVE_RATES = {"kaggle": 0.2562, "terabyte": 0.033}
"""Share of clicks in Criteo's published logs: 25.62 % of the Kaggle set, and 3.29 % of the days 0
to 17 of the Terabyte set."""

EVALUATION_FIRST = 2**40
"""Index of the first held-out sample."""

_HEAD = 4096
"""Ranks with exact probabilities; behind them the sum is an integral, whose error is below 1e-8."""
_SAME = 1e-9
"""A standard deviation of numbers that are all the same is below, because of rounding."""
_REFERENCE = 2**50
"""Index of the first of the samples that set the mean of the labels."""
_REFERENCE_COUNT = 2**17


@dataclass(frozen=True, slots=True)
class Teacher:
    """Model that gives the labels. Its sizes decide how many samples it takes to learn it."""

    known: int = 32
    """Ranks of a category that are worth something."""
    spread: float = 1.3
    """Standard deviation of the sum over categories, in units of the logit."""
    paired: int = 16
    """Ranks of a category that take part in products."""
    pairs: int = 3
    """Pairs of categories that are multiplied."""
    pair_spread: float = 0.2
    """Standard deviation of the sum of products."""
    dense_spread: float = 0.7
    """Standard deviation of what the counts are worth."""


class Ranks:
    """Draws ranks from 0 with probability proportional to `(rank + 1) ** -SKEW`, by inversion."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        head = min(rows, _HEAD)
        mass = np.arange(1, head + 1, dtype=np.float64) ** -SKEW
        self.cumulative = np.cumsum(mass)
        # The integral of x ** -SKEW over (k - 1/2, k + 1/2) is the probability of rank k - 1.
        self.power = 1 - SKEW
        self.start = (head + 0.5) ** self.power
        self.tail = ((rows + 0.5) ** self.power - self.start) / self.power if rows > head else 0.0
        self.head = head
        self.total = self.cumulative[-1] + self.tail

    def draw(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """A rank for each number from 0 to 1, increasing with it."""
        target = uniform * self.total
        ranks = np.searchsorted(self.cumulative, target, side="right")
        behind = np.flatnonzero(ranks == self.head)
        if behind.size and self.tail:
            beyond = (target[behind] - self.cumulative[-1]) * self.power + self.start
            ranks[behind] = np.rint(beyond ** (1 / self.power)).astype(np.int64) - 1
        return np.asarray(np.minimum(ranks, self.rows - 1))


class Synthetic:
    """Click logs for tables of `rows` rows, read with `pooling` lookups each.

    `positive_rate` is the mean of the labels. Two generators with the same arguments give the same
    samples. As a source of data it has `size` samples from sample `first`: all of them, unless
    `over` chooses."""

    def __init__(
        self,
        rows: Sequence[int],
        pooling: Sequence[int],
        *,
        seed: int = 0,
        positive_rate: float = POSITIVE_RATES["kaggle"],
        dense_features: int = DENSE,
        teacher: Teacher | None = None,
    ) -> None:
        self.rows, self.pooling, self.seed = tuple(rows), tuple(pooling), seed
        self.dense_features = dense_features
        self.first: int = 0
        self.size: int | None = None
        self.positive_rate = positive_rate
        self.teacher = teacher or Teacher()
        # Random numbers for each sample; Philox makes four at a time.
        self._draws = -(-(len(rows) + 2 * dense_features + 1) // 4) * 4
        self._ranks = {count: Ranks(count) for count in set(rows)}
        made = np.random.default_rng([seed, 1])
        self._multipliers = [_coprime(count, made) for count in rows]
        self._offsets = [int(made.integers(count)) for count in rows]
        self._mean = made.uniform(0.5, 3.0, dense_features)
        self._sigma = made.uniform(0.6, 1.6, dense_features)
        self._empty = made.uniform(0.0, 0.4, dense_features)
        self._bias = self._balanced(self._make_teacher(made))

    def _make_teacher(self, made: np.random.Generator) -> NDArray[np.float64]:
        """Draws what the teacher knows. Returns its logits of the reference samples, without the
        constant."""
        tables, size = len(self.rows), self.teacher
        self._worth = made.normal(0, 1, (tables, size.known + 1))
        self._worth[:, -1] = 0.0
        pairs = [(a, b) for a in range(tables) for b in range(a)]
        chosen = made.permutation(len(pairs))[: size.pairs]
        self._pairs = [pairs[each] for each in chosen]
        self._factors = self._worth[:, : size.paired + 1].copy()
        self._factors[:, -1] = 0.0
        self._slope = made.normal(0, 1, self.dense_features)
        self._bend = made.normal(0, 0.5, self.dense_features)
        # Every part is scaled to its standard deviation over reference samples.
        self._scales = [1.0, 1.0, 1.0]
        ranks, _, filled = self._base(_REFERENCE, _REFERENCE_COUNT)
        parts = self._parts(ranks, filled)
        spreads = [float(part.std()) for part in parts]
        wanted = (size.spread, size.pair_spread, size.dense_spread)
        self._scales = [
            want / spread if spread > _SAME else 0.0
            for want, spread in zip(wanted, spreads, strict=True)
        ]
        scaled = (part * scale for part, scale in zip(parts, self._scales, strict=True))
        return np.asarray(sum(scaled))

    def samples(self, first: int, count: int) -> Samples:
        """Samples `first` to `first + count - 1`."""
        ranks, labels, dense = self._drawn(first, count)
        lengths = np.repeat(np.array(self.pooling, np.int32)[:, None], count, axis=1)
        indices = np.empty(sum(self.pooling) * count, np.int64)
        place = 0
        for table, (rows, pooling) in enumerate(zip(self.rows, self.pooling, strict=True)):
            ids = (ranks[table] * self._multipliers[table] + self._offsets[table]) % rows
            part = indices[place : place + pooling * count].reshape(count, pooling)
            part[:, 0] = ids
            if pooling > 1:
                part[:, 1:] = self._further(table, ids, pooling - 1)
            place += pooling * count
        return Samples(dense, lengths, narrowed(indices, self.rows), labels)

    def over(self, first: int, size: int | None) -> Synthetic:
        """The same samples as a source of `size` of them from sample `first`."""
        other = copy(self)
        other.first, other.size = first, size
        return other

    @property
    def identity(self) -> str:
        """As `Source.identity`."""
        facts = (self.rows, self.pooling, self.seed, self.positive_rate, self.dense_features)
        return identity("synthetic", *facts, self.teacher, self.first)

    def parts(
        self, batch: int, rank: int, ranks: int, start: Position = START, turn: Turn = ALL
    ) -> Iterator[Part]:
        """As `Source.parts`."""
        done, number = start.sample, -1
        while self.size is None or done < self.size:
            whole = batch if self.size is None else min(batch, self.size - done)
            mine = share(whole, rank, ranks)
            first = self.first + done + mine.start
            done, number = done + whole, number + 1
            after = Position(start.epoch, done)
            if number % turn[1] == turn[0]:
                yield Part(self.samples(first, len(mine)), first, whole, after)

    def bound(self, first: int, count: int) -> NDArray[np.float64]:
        """The teacher's logits of these samples, float64 [count]: no prediction is better."""
        ranks, _, dense = self._base(first, count)
        return np.asarray(self._bias + sum(self._parts(ranks, dense)))

    def _further(self, table: int, ids: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """The rows that an id reads in addition to its own, int64 [ids, count]: fixed by the id,
        uniform over the table."""
        key = np.uint64((self.seed * 1_000_003 + table) & (2**64 - 1))
        steps = (np.arange(1, count + 1, dtype=np.uint64) << np.uint64(40))[None, :]
        mixed = _mix((ids.astype(np.uint64)[:, None] + steps) ^ _mix(np.array([key])))
        return (mixed % np.uint64(self.rows[table])).astype(np.int64)

    def _uniform(self, first: int, count: int) -> NDArray[np.uint64]:
        """Random bits, uint64 [draws, count]."""
        source = np.random.Philox(key=self.seed).advance(first * (self._draws // 4))
        return np.ascontiguousarray(
            source.random_raw(self._draws * count).reshape(count, self._draws).T
        )

    def _base(
        self, first: int, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float32]]:
        """Ranks [F, count], a uniform number for the label [count], transformed counts
        [count, 13]."""
        uniform = (self._uniform(first, count) >> np.uint64(11)) * 2.0**-53
        tables, dense = len(self.rows), self.dense_features
        ranks = np.empty((tables, count), np.int64)
        for table, rows in enumerate(self.rows):
            ranks[table] = self._ranks[rows].draw(uniform[table])
        normal = ndtri(uniform[tables : tables + dense] + 2.0**-54).astype(np.float32)
        counts = np.floor(
            np.exp(
                normal * self._sigma[:, None].astype(np.float32)
                + self._mean[:, None].astype(np.float32)
            )
        )
        counts[uniform[tables + dense : tables + 2 * dense] < self._empty[:, None]] = 0
        return ranks, uniform[tables + 2 * dense], logarithms(counts.T)

    def _drawn(
        self, first: int, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
        ranks, uniform, dense = self._base(first, count)
        probability = expit(self._bias + sum(self._parts(ranks, dense)))
        return ranks, (uniform < probability).astype(np.float32), np.ascontiguousarray(dense)

    def _parts(
        self, ranks: NDArray[np.int64], dense: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """The three parts of the logit, float64 [count] each: ids, pairs of ids, counts."""
        size = self.teacher
        ids = np.zeros(ranks.shape[1])
        for table, each in enumerate(ranks):
            ids += self._worth[table][np.minimum(each, size.known)]
        pairs = np.zeros(ranks.shape[1])
        for one, other in self._pairs:
            left = self._factors[one][np.minimum(ranks[one], size.paired)]
            pairs += left * self._factors[other][np.minimum(ranks[other], size.paired)]
        counts = np.zeros(ranks.shape[1])
        for column, slope, bend in zip(dense.T, self._slope, self._bend, strict=True):
            level = column.astype(np.float64) - 2.5
            counts += slope * level + bend * np.tanh(level)
        one, two, three = self._scales
        return ids * one, pairs * two, counts * three

    def _balanced(self, logits: NDArray[np.float64]) -> float:
        """The constant with which the mean of the teacher's probabilities is the positive rate."""
        low, high = -40.0, 40.0
        for _ in range(30):
            middle = (low + high) / 2
            if expit(logits + middle).mean() < self.positive_rate:
                low = middle
            else:
                high = middle
        return (low + high) / 2


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scrambles 64 bits (the finalizer of SplitMix64, Steele et al., OOPSLA 2014)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _coprime(count: int, made: np.random.Generator) -> int:
    """A multiplier that scatters ranks over the rows, each rank to another row."""
    if count == 1:
        return 1
    while True:
        found = int(made.integers(max(1, count // 3), count)) | 1
        if np.gcd(found, count) == 1:
            return found
