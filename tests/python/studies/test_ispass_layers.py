"""Study D5: communication by layer on the torus of the ISPASS 2020 paper."""

from __future__ import annotations

import pytest

from armillary.studies.ispass_layers import BLOCKS, blocks, run

BACKENDS = ("analytical", "link", "flow")


@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_of_the_transformer_communicate_alike(backend: str) -> None:
    """Section V-E: uniform across layers 1 to 6."""
    layers = blocks(run("transformer", backend))
    assert len(layers) == BLOCKS
    assert max(layers) <= 1.05 * min(layers)


@pytest.mark.parametrize("backend", BACKENDS)
def test_chunks_wait_for_the_first_ring_between_packages(backend: str) -> None:
    """Section V-F: after few iterations most of the delay is in queue P2."""
    waits = run("resnet", backend).waits
    assert waits["P2"] > max(wait for queue, wait in waits.items() if queue != "P2")


def test_lifo_and_fifo_are_alike() -> None:
    """Section V-F and Fig. 16, within 5 % of the time."""
    lifo, fifo = (run("resnet", "analytical", policy).time for policy in ("lifo", "fifo"))
    assert fifo == pytest.approx(lifo, rel=0.05)


def test_only_the_last_reductions_are_waited_for() -> None:
    """Fig. 15: the exposed part is at most the communication, and most of it is hidden."""
    layers = run("resnet", "analytical").layers
    assert len(layers) == 54
    assert all(exposed <= communication for communication, exposed in layers.values())
    hidden = 1 - sum(e for _, e in layers.values()) / sum(c for c, _ in layers.values())
    assert hidden > 0.9
