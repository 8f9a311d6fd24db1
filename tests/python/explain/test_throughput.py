"""Which of two runs is faster: by step, by sample where batches differ, by token where samples
do."""

from __future__ import annotations

import pytest

from armillary.explain import throughput
from armillary.explain.throughput import Throughput

NAMES = ("old", "new")


def step(
    ms: float, samples: int = 0, tokens: int = 0, npus: int = 8, model: str = "m"
) -> Throughput:
    return Throughput(model, npus, ms * 1e6, samples, tokens, samples * 10**12, 0.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            step(200),
            step(250),
            "new takes 50.00 ms longer than old: 250.0 ms instead of 200.0 ms (+25.0 %)",
        ),
        (
            step(200, 4, 400),
            step(150, 4, 400),
            "new takes 50.00 ms less than old: 150.0 ms instead of 200.0 ms (-25.0 %)",
        ),
        (
            step(200, 4, 400),
            step(300, 8, 800),
            "new is 33.3 % faster per sample than old: 26.67 samples/s instead of 20",
        ),
        (
            step(200, 4, 400),
            step(500, 8, 800),
            "new is 20.0 % slower per sample than old: 16 samples/s instead of 20",
        ),
        (
            step(200, 4, 400),
            step(400, 8, 800),
            "new is as fast per sample as old: 20 samples/s instead of 20",
        ),
        (
            step(200, 4, 400),
            step(300, 2, 800),
            "new is 33.3 % faster per token than old: 2667 tokens/s instead of 2000",
        ),
        (
            step(200, 4),
            step(300, 8),
            "new is 33.3 % faster per sample than old: 26.67 samples/s instead of 20",
        ),
        (
            step(200, 4),
            step(300),
            "new takes 100.0 ms longer than old: 300.0 ms instead of 200.0 ms (+50.0 %)",
        ),
        (step(200), step(200), "new takes as long as old: 200.0 ms"),
    ],
)
def test_headline(old: Throughput, new: Throughput, said: str) -> None:
    assert throughput.headline(old, new, NAMES) == said


def test_what_the_headline_does_not_say() -> None:
    notes = list(throughput.notes(step(200, 4, 400, 8), step(150, 8, 800, 16, "other"), NAMES))
    assert notes[0].startswith(
        "The steps do different amounts of work: 8 samples of 100 tokens in 150.0 ms against 4"
    )
    assert notes[1] == "The models differ: other in new, m in old."
    assert (
        "new has 16 NPUs, old 8 NPUs: 3.333 instead of 2.5 samples/s on each (+33.3 %)." in notes[2]
    )
    assert not list(throughput.notes(step(200, 4, 400), step(150, 4, 400), NAMES))
