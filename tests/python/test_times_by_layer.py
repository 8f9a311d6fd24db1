"""Times by layer, pass and phase, against a case worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import armillary as arm

PLATFORM = """
name: pair
topology: Switch(2)
links: [{bandwidth: 100 GB/s, latency: 0 ns}]
scheduler:
  {policy: fifo, chunks: 2, queues_per_dim: 1, active_chunks: 1, endpoint_delay: 0 ns}
"""
LAYERS = """DATA
2
a -1 10000 NONE 0 10000 NONE 0 50000 ALLREDUCE 8000000 0
a -1 10000 NONE 0 10000 NONE 0 50000 ALLREDUCE 8000000 0
"""
US = 1000.0


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> arm.Result:
    """A chunk of 4 MB takes 40 us. The second layer reduces from 70 to 150 us; the first one from
    130 us on, where a chunk of the second is under way, to 230 us. Computation ends at 130 us."""
    folder: Path = tmp_path_factory.mktemp("layers")
    platform, layers = folder / "pair.yml", folder / "layers.txt"
    platform.write_text(PLATFORM)
    layers.write_text(LAYERS)
    return arm.simulate(layers, platform)


def test_layers_have_raw_and_exposed_communication_by_pass(result: arm.Result) -> None:
    assert result.step_time_ns == 230 * US
    assert result.layers().rows() == [
        (0, "a", "forward", 10 * US, 0.0, 0.0),
        (0, "a", "weight_gradient", 50 * US, 100 * US, 80 * US),
        (0, "a (2)", "forward", 10 * US, 0.0, 0.0),
        (0, "a (2)", "input_gradient", 10 * US, 0.0, 0.0),
        (0, "a (2)", "weight_gradient", 50 * US, 80 * US, 20 * US),
    ]


def test_layers_have_delays_by_phase(result: arm.Result) -> None:
    """Chunks of the second layer wait 0 and 40 us, those of the first 20 and 60 us."""
    name = "P1 all_reduce Switch(2)"
    assert result.layer_phases().rows() == [
        ("a", "weight_gradient", name, 0, 4, 40 * US, 40 * US),
        ("a (2)", "weight_gradient", name, 0, 4, 20 * US, 40 * US),
    ]
