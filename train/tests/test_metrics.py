"""Scores: exact ones against definitions, streaming ones within the error they report."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armillary_train.net import metrics


def by_pairs(scores: list[float], labels: list[int]) -> float:
    """The definition: all pairs of a click and a sample without one."""
    clicks = [score for score, label in zip(scores, labels, strict=True) if label]
    others = [score for score, label in zip(scores, labels, strict=True) if not label]
    if not clicks or not others:
        return math.nan
    won = sum((a > b) + (a == b) / 2 for a in clicks for b in others)
    return won / (len(clicks) * len(others))


SAMPLES = st.lists(
    st.tuples(
        st.one_of(st.sampled_from([-1.0, 0.0, 0.5]), st.floats(-30, 30, width=32)),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=60,
)


@given(SAMPLES)
def test_exact_auc_is_the_share_of_pairs(samples: list[tuple[float, int]]) -> None:
    scores, labels = (list(each) for each in zip(*samples, strict=True))
    assert metrics.auc_exact(scores, labels) == pytest.approx(by_pairs(scores, labels), nan_ok=True)


@given(SAMPLES)
def test_streaming_is_within_its_error_and_merges(samples: list[tuple[float, int]]) -> None:
    logits, labels = (np.array(each) for each in zip(*samples, strict=True))
    exact = metrics.exact(logits, labels)
    parts = [metrics.Streaming(), metrics.Streaming()]
    for place, (logit, label) in enumerate(zip(logits, labels, strict=True)):
        parts[place % 2].add([logit], [label])
    parts[0].state += parts[1].state
    found = parts[0].scores()
    for name in ("loss", "ne", "calibration", "positive_rate"):
        assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=1e-9, nan_ok=True)
    if not math.isnan(exact.auc):
        assert abs(found.auc - exact.auc) <= found.auc_error + 1e-12
    parts[0].clear()
    assert parts[0].scores().samples == 0


def test_known_values() -> None:
    """Knowing only the mean is an NE of 1 and an AUC of one half."""
    labels = np.array([1, 0, 0, 0] * 50)
    found = metrics.exact(np.full(200, math.log(1 / 3)), labels)
    assert found.ne == pytest.approx(1)
    assert found.auc == 0.5
    assert found.calibration == pytest.approx(1)
    assert found.loss == pytest.approx(metrics.entropy(0.25))
    assert metrics.exact([-900.0, 900.0], [0, 1]).loss == 0
    assert metrics.exact([900.0, -900.0], [0, 1]).loss == 900


def test_what_is_not_determined_is_null() -> None:
    found = metrics.exact([0.0, 1.0], [1, 1]).as_dict()
    assert found["auc"] is None and found["ne"] is None and found["samples"] == 2
    assert metrics.exact([], []).as_dict()["loss"] is None


def test_the_error_of_many_bins_is_small() -> None:
    made = np.random.default_rng(1)
    logits = made.normal(0, 1.5, 20_000)
    labels = made.random(20_000) < 1 / (1 + np.exp(-logits))
    stream = metrics.Streaming()
    stream.add(logits, labels)
    found = stream.scores()
    assert 0 < found.auc_error < 1e-3
    assert abs(found.auc - metrics.auc_exact(logits, labels)) <= found.auc_error
