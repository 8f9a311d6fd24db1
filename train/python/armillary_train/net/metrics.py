"""Scores of click predictions: loss, normalized entropy, area under the ROC curve, calibration.

Here: exact and streaming scores, which merge over ranks by adding. Not here: who collects them
(`run/loop.py`).

    loss          mean of -log of the probability of what happened, in nats
    NE            loss / entropy of the mean label (He et al., ADKDD 2014): 1 is knowing only the
                  mean; lower is better
    AUC           probability that a click has a higher score than a sample without click; ties
                  count one half
    calibration   mean prediction / mean label: 1 is best"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

BINS = 8192
"""Bins of the streaming AUC."""

RANGE = 16.0
"""Logits from -16 to 16 have bins of their own; what is beyond is in the outermost ones."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a set of samples. A score that the set does not determine, such as the AUC of
    clicks only, is `nan`."""

    samples: int
    loss: float
    ne: float
    auc: float
    auc_error: float
    """The exact AUC differs from `auc` by at most this."""
    calibration: float
    positive_rate: float

    def as_dict(self) -> dict[str, float | int | None]:
        """The scores by name, `None` for those that are not determined."""
        values = {
            "samples": self.samples,
            "loss": self.loss,
            "ne": self.ne,
            "auc": self.auc,
            "auc_error": self.auc_error,
            "calibration": self.calibration,
            "positive_rate": self.positive_rate,
        }
        return {name: value if math.isfinite(value) else None for name, value in values.items()}


class Streaming:
    """Scores of samples that come in parts, in memory that does not grow.

    `state` is a vector of float64: samples, clicks, sum of losses, sum of predictions, then the
    samples without and with a click in each bin of the logit. States of several ranks are merged by
    adding. Counts are exact up to 2^53. The AUC counts two samples of one bin as a tie; the error
    of that is at most half of the pairs that share a bin, and is reported."""

    def __init__(self) -> None:
        self.state: NDArray[np.float64] = np.zeros(4 + 2 * BINS)

    def add(self, logits: ArrayLike, labels: ArrayLike) -> None:
        """Adds samples: logits [n] and labels [n], 0 or 1."""
        given, clicked = _pair(logits, labels)
        self.state[0] += len(given)
        self.state[1] += np.count_nonzero(clicked)
        self.state[2] += losses(given, clicked).sum()
        self.state[3] += _sigmoid(given).sum()
        scaled = (np.clip(np.nan_to_num(given), -RANGE, RANGE) + RANGE) * (BINS / (2 * RANGE))
        place = np.minimum(scaled.astype(np.int64), BINS - 1) + BINS * clicked
        self.state[4:] += np.bincount(place, minlength=2 * BINS)

    def clear(self) -> None:
        """Forgets all samples."""
        self.state[:] = 0

    def scores(self) -> Scores:
        """The scores of all samples so far."""
        samples, clicks, loss, predicted = (float(value) for value in self.state[:4])
        without, with_ = self.state[4 : 4 + BINS], self.state[4 + BINS :]
        pairs = clicks * (samples - clicks)
        below = np.cumsum(without) - without
        tied = float((with_ * without).sum()) / 2
        auc = (float((with_ * below).sum()) + tied) / pairs if pairs else math.nan
        error = tied / pairs if pairs else math.nan
        return _scores(int(samples), int(clicks), loss, predicted, auc, error)


def exact(logits: ArrayLike, labels: ArrayLike) -> Scores:
    """The scores of samples that are all there: logits [n] and labels [n], 0 or 1."""
    given, clicked = _pair(logits, labels)
    loss, predicted = float(losses(given, clicked).sum()), float(_sigmoid(given).sum())
    clicks = int(np.count_nonzero(clicked))
    return _scores(len(given), clicks, loss, predicted, auc_exact(given, clicked), 0.0)


def auc_exact(scores: ArrayLike, labels: ArrayLike) -> float:
    """Area under the ROC curve by ranks (Mann and Whitney, 1947); equal scores share a rank.

    `scores` [n], `labels` [n]: 0 or 1. `nan` when all labels are the same."""
    given, clicked = np.asarray(scores), np.asarray(labels).astype(bool)
    clicks = int(np.count_nonzero(clicked))
    pairs = clicks * (len(given) - clicks)
    if not pairs:
        return math.nan
    order = np.argsort(given, kind="stable")
    ordered = given[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    # Groups of equal scores: pairs across groups count one, pairs within a group one half.
    with_ = np.add.reduceat(clicked[order].astype(np.int64), first)
    all_ = np.diff(np.r_[first, len(given)])
    without = all_ - with_
    below = np.cumsum(without) - without
    return (2 * int((with_ * below).sum()) + int((with_ * without).sum())) / (2 * pairs)


def losses(logits: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Binary cross-entropy of each sample in nats, float64 [n]; never overflows. Logits that are
    infinite or not a number have losses that are not a number."""
    with np.errstate(invalid="ignore"):
        return np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))


def entropy(rate: float) -> float:
    """Entropy of a label with the mean `rate`, in nats."""
    return -sum(part * math.log(part) for part in (rate, 1 - rate) if part > 0)


def _scores(
    samples: int, clicks: int, loss: float, predicted: float, auc: float, error: float
) -> Scores:
    if not samples:
        return Scores(0, *(math.nan,) * 6)
    rate = clicks / samples
    base = entropy(rate)
    return Scores(
        samples,
        loss / samples,
        loss / samples / base if base else math.nan,
        auc,
        error,
        predicted / clicks if clicks else math.nan,
        rate,
    )


def _pair(logits: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return np.asarray(logits, np.float64).ravel(), (np.asarray(labels).ravel() > 0.5).astype(
        np.int64
    )


def _sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * logits)))
