"""Parameter servers: rates that one resource limits, by hand."""

from __future__ import annotations

import pytest

import armillary as arm
from armillary.errors import InputError
from armillary.model import Model
from armillary.plan.servers import ServerRates, rates
from armillary.workload.servers import parameter_servers

TABLES, ROW, POOLING, BATCH = 8, 64, 10, 100
FIELDS = {
    "dense_features": 16,
    "bottom": [64],
    "interaction": {"kind": "concat"},
    "top": [1000, 1],
    "bias": False,
    "tables": [{"count": TABLES, "rows": 10**5, "dim": ROW, "pooling": POOLING}],
}
MLPS = 16 * 64 + (64 + TABLES * ROW) * 1000 + 1000
"""Parameters."""
FAST = {"bandwidth": "10000 GB/s", "peak": "100000 TFLOPS", "memory": "100000 GB/s"}


def reached(changes: dict[str, str], backend: str = "analytical", /, **options: int) -> ServerRates:
    """Rates on machines that are fast apart from `changes`."""
    given = {**FAST, **changes}
    text = f"""
topology: Switch(8)
links: {{bandwidth: {given["bandwidth"]}, per: npu, latency: 10 ns}}
npu:
  peak: {given["peak"]}
  memory: {{bandwidth: {given["memory"]}, capacity: 100 GB}}
"""
    fixed = {"trainers": 4, "servers": 2, "dense_servers": 2, "local_batch": BATCH}
    model = Model("small", "dlrm", FIELDS)
    platform = arm.Platform.parse(text)
    return rates(model, platform, backend=backend, **{**fixed, **options})


def test_trainers_that_compute_limit_the_rate() -> None:
    found = reached({"peak": "1 TFLOPS"})
    assert found.samples_per_second == pytest.approx(4 * 10**12 / (3 * 2 * MLPS), rel=1e-3)
    assert found.trainers == pytest.approx(1, rel=1e-3)
    assert found.servers < 0.01 and found.dense_servers < 0.01


def test_servers_that_look_up_limit_the_rate() -> None:
    """One server reads rows, and updates them; row-wise AdaGrad reads and writes 4 bytes of a
    row."""
    lookups = BATCH * TABLES * POOLING
    pooled = BATCH * TABLES * ROW * 4
    moved = lookups * (3 * ROW * 4 + 2 * 8 + 2 * 4) + 2 * pooled
    slow = {"memory": "1 GB/s", "peak": "100000 TFLOPS"}
    found = reached(slow, servers=1, dense_servers=3, sync_every=10)
    assert found.samples_per_second == pytest.approx(BATCH * 10**9 / moved, rel=1e-3)
    assert found.servers == pytest.approx(1, rel=1e-3)


def test_the_card_of_a_dense_server_limits_the_rate() -> None:
    """Each exchange sends the MLPs of 4 trainers to one server; requests and rows are small. Where
    the trainers share its card fairly, all send, and then all receive."""
    slow, options = {"bandwidth": "1 GB/s"}, {"dense_servers": 1, "sync_every": 1, "threads": 1}
    card = BATCH * 10**9 / (MLPS * 4)
    found = reached(slow, **options).samples_per_second
    assert found == pytest.approx(card, rel=0.15)
    assert 0.5 * card < reached(slow, "flow", **options).samples_per_second < found


def test_trainers_do_not_wait_for_each_other() -> None:
    """Eight times the trainers have eight times the rate as long as servers are idle."""
    slow = {"peak": "1 TFLOPS"}
    one, four = (reached(slow, trainers=count).samples_per_second for count in (1, 4))
    assert four == pytest.approx(4 * one, rel=1e-3)


def test_more_servers_than_tables_hold_columns() -> None:
    workload = parameter_servers(Model("small", "dlrm", FIELDS), trainers=1, servers=16)
    assert workload.ranks == 18


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trainers": 0}, "trainers: 0 is not a count"),
        ({"steps": 15}, "steps: 15 steps do not end with an exchange of the MLPs"),
        ({"samples": 5}, "samples: unknown option"),
    ],
)
def test_what_is_refused(options: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        reached({}, **options)
