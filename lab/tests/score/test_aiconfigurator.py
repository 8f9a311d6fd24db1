"""AIConfigurator's recorded estimates next to ours, on the same measured runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import ROOT

from armillary_lab.predict.serving import Prediction
from armillary_lab.score.aiconfigurator import ERRORS, Pair, chosen, estimates, pairs, table

RECORD = str(ROOT / "tests/golden/peers/aiconfigurator.json")


def test_the_record_has_the_chosen_runs() -> None:
    """All of them, most with an estimate, and runs of every model and engine."""
    found, runs = estimates(RECORD), chosen()
    assert list(found) == [run.name for run in runs]
    assert sum(each is not None for each in found.values()) > 0.8 * len(found)
    assert {run.engine for run in runs} == {"sglang", "trtllm", "vllm"}
    assert {run.model for run in runs} >= {"GLM-5", "Qwen3.5-397B-A17B", "DeepSeek-V3"}
    assert all(each is None or min(each) > 0 for each in found.values())


def test_errors_by_hand() -> None:
    """The peer is 10 % too slow for a token, ours 20 % too fast; throughput is that of a request
    after another."""
    run = replace(chosen()[0], ttft=1.0, tpot=0.02, prompt=1000, output=1000, concurrency=10)
    ours = Prediction(run, 1.0, 0.016, 0.0, 0.0)
    pair = Pair(run, ours, 1.5, 0.022)
    found = {name: (peer(pair), mine(pair)) for name, peer, mine in ERRORS}
    assert found["TPOT"] == pytest.approx((0.1, -0.2))
    assert found["TTFT"] == pytest.approx((0.5, 0.0))
    measured, theirs, own = (1 / (first + 899 * each) for first, each in (
        (1.0, 0.02), (1.5, 0.022), (1.0, 0.016),
    ))  # fmt: skip
    assert found["throughput"] == pytest.approx((theirs / measured - 1, own / measured - 1))
    assert table([pair])[2].startswith("| all | 1 | 10 / 10 % | 20 / 20 % | 50 / 50 % | 0 / 0 % |")


def test_some_runs_are_predicted_by_both() -> None:
    found, ours, theirs = pairs(RECORD, every=16)
    known = estimates(RECORD)
    assert len(found) + ours + theirs <= len(chosen()[::16])
    assert len(found) >= 4
    for pair in found:
        assert known[pair.run.name] == (pair.ttft, pair.tpot)
        assert pair.run.tpot is not None
        assert 0.3 < pair.ours.tpot / pair.run.tpot < 3
