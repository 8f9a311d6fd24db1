"""Studies D4 and D5: where chunks wait, and communication by layer, on the tori of the ISPASS 2020
paper."""

from __future__ import annotations

import pytest

from armillary.studies.ispass_breakdown import SHAPES
from armillary.studies.ispass_breakdown import run as run_all_reduce
from armillary.studies.ispass_layers import BLOCKS, blocks, run

BACKENDS = ("analytical", "link", "flow", "flit")


@pytest.mark.parametrize("backend", BACKENDS[:-1])
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
    """Section V-F and Fig. 16: nothing waits in the ready queue, and from then on chunks come in
    turn."""
    lifo, fifo = (run("resnet", "analytical", policy) for policy in ("lifo", "fifo"))
    assert lifo.waits["P0"] == 0
    assert fifo.time == lifo.time


def test_only_the_last_reductions_are_waited_for() -> None:
    """Fig. 15: the exposed part is at most the communication, and most of it is hidden."""
    layers = run("resnet", "analytical").layers
    assert len(layers) == 54
    assert all(exposed <= communication for communication, exposed in layers.values())
    hidden = 1 - sum(e for _, e in layers.values()) / sum(c for c, _ in layers.values())
    assert hidden > 0.9


@pytest.mark.parametrize("backend", BACKENDS)
def test_growing_tori_wait_as_in_figure_12(backend: str) -> None:
    """Section V-D: slow growth from 16 to 32 NPUs, a jump to 64; queue P2 dominates at 2x4x4, after
    the horizontal rings have been the bottleneck at 2x4x2."""
    small, middle, large = (run_all_reduce(shape, backend) for shape in SHAPES[1:])
    assert middle.time < 1.05 * small.time
    assert large.time > 1.1 * middle.time
    waits = middle.queues
    assert waits["P2"] > 2 * max(wait for queue, wait in waits.items() if queue != "P2")
    assert small.queues["P3"] > waits["P3"]
    assert set(waits) == {"P0", "P1", "P2", "P3", "P4"}
