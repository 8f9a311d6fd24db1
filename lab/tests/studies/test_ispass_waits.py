"""Studies D4 and D5: where chunks wait, and communication by layer, on the tori of the ISPASS 2020
paper."""

from __future__ import annotations

import pytest

from armillary_lab.studies import ispass_layers
from armillary_lab.studies.ispass_breakdown import SHAPES
from armillary_lab.studies.ispass_breakdown import run as run_all_reduce
from armillary_lab.studies.ispass_layers import BLOCKS, blocks, run

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


def test_figures_by_layer_are_those_of_the_run() -> None:
    """Figs. 13 to 16: bars of 57 and 54 layers, apart by pass or part, that sum to the layers."""
    transformer, resnet = run("transformer", "analytical"), run("resnet", "analytical")
    charts = ispass_layers.charts(ispass_layers.rows(("analytical",)))
    by_pass, raw, ends, lifo, fifo = (chart.records() for chart in charts)
    sums: dict[str, float] = {}
    for row in by_pass:
        sums[row["layer"]] = sums.get(row["layer"], 0.0) + row["time"]
    communicating = {layer: time for layer, (time, _) in transformer.layers.items() if time}
    assert sums == pytest.approx(communicating)
    assert len(transformer.layers) == 57
    assert {row["part"] for row in by_pass} == {"forward", "input gradient", "weight gradient"}
    assert {row["part"] for row in raw} == {"weight gradient"}, "data-parallel"
    assert len(ends) == 2 * len(resnet.layers) == 2 * 54
    parts = [f"queue P{i}" for i in range(5)] + [f"network P{i}" for i in range(1, 5)]
    assert {row["part"] for row in lifo} == {row["part"] for row in fifo} == set(parts)


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
