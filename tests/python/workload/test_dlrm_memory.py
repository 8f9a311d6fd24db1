"""Recommendation models: copies from the host, tables on the host behind a cache, and kernels of
single tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import armillary as arm
from armillary.errors import InputError
from armillary.model import Model
from armillary.model.locality import Demand, Popularity, fetched
from armillary.report import outside
from armillary.workload.dlrm import dlrm

FIELDS = {
    "family": "dlrm",
    "dense_features": 16,
    "bottom": [8],
    "interaction": {"kind": "dot"},
    "top": [1],
    "local_batch": 64,
    "tables": [{"count": 4, "rows": 100_000, "dim": 8, "pooling": 5}],
}
MODEL = Model("small", "dlrm", {key: value for key, value in FIELDS.items() if key != "family"})

REMOTE = "{model: link, sharing: per_npu, bandwidth: 1 GB/s, latency: 3 us}"
PLATFORM = f"""
topology: Switch(4)
links: {{bandwidth: 10 GB/s, latency: 1 us}}
npu:
  compute: {{model: roofline, kernel_overhead: 7 us}}
  peak: 1 TFLOPS
  memory: {{bandwidth: 100 GB/s, capacity: 1 GB}}
remote_memory: {REMOTE}
"""


def step_us(**options: object) -> float:
    workload = dlrm(MODEL, dp=4, sharding="table", **options)
    return arm.simulate(workload, arm.Platform.parse(PLATFORM)).step_time_ns / 1e3


def test_tables_on_hosts_and_disks_lie_there() -> None:
    """A table of 100,000 rows of 8 elements of 4 bytes on each NPU, with 4 bytes of state a row."""
    workload = dlrm(MODEL, dp=4, sharding="table", tier="host", cache=5000)
    assert workload.summary is not None
    assert [entry.host.tables for entry in workload.summary.classes] == [3_200_000]

    def run(capacity: str) -> arm.Result:
        link = REMOTE.replace("}", f", capacity: {capacity}}}")
        return arm.simulate(workload, arm.Platform.parse(PLATFORM.replace(REMOTE, link)))

    found = run("3.6 MB")
    assert (found.outside[0]["memories"], found.outside[0]["least_bytes"]) == (4, 3_600_000)
    says = "holds 3.600 MB of 3.600 MB, for 1 NPU (optimizer state 400.0 kB, tables 3.200 MB)"
    assert says in outside.lines(found.report)[0]
    with pytest.raises(InputError, match="remote memory must hold"):
        run("3.5 MB")


def test_inputs_are_copied_before_they_are_distributed() -> None:
    """64 samples: 4 lengths of 4 bytes, 20 indices of 8, 16 dense features of 4."""
    copied = 64 * (4 * 4 + 20 * 8 + 16 * 4)
    longer = 3 + copied / 1e3
    assert step_us(host_inputs=True) - step_us() == pytest.approx(longer, abs=0.05)


def test_copies_of_the_next_batch_are_hidden_when_pipelined() -> None:
    one, other = (step_us(host_inputs=True, passes=3, pipeline=each) for each in (True, False))
    longer = 3 + 64 * (4 * 4 + 20 * 8 + 16 * 4) / 1e3
    assert other - one > longer


def test_kernels_of_single_tables() -> None:
    """A table on each NPU has three kernels, one more, that take longer by the overhead of each,
    and by gradients of 64 x 4 x 5 rows that are written and read."""
    longer = 7 + 2 * (64 * 4 * 5) * 8 * 4 / 100e3
    assert step_us(fused=False) - step_us() == pytest.approx(longer, abs=0.05)


def test_rows_come_from_the_host_as_often_as_the_cache_misses() -> None:
    """A row of 8 elements has 4 bytes of state: 36. It is fetched and, at the end, written back."""
    cache = 360_000
    demand = Demand(Popularity(100_000, 0.9), 64 * 4 * 5, 1.0, 36)
    amount = round(36 * fetched([demand], cache)[0])
    assert 0 < amount < 36 * 64 * 4 * 5
    longer = 2 * (3 + amount / 1e3)
    with_cache = step_us(tier="host", cache=cache, skew=0.9)
    assert with_cache - step_us() == pytest.approx(longer, abs=0.05)
    # Everything is in a cache that has room for it.
    assert step_us(tier="host", cache=100_000 * 36) == step_us()


def test_memory_of_an_npu_has_the_cache_instead_of_tables() -> None:
    tables, cached = (
        dlrm(MODEL, dp=4, sharding="table", **options).summary.classes[0].memory  # type: ignore[union-attr]
        for options in ({}, {"tier": "host", "cache": 5000})
    )
    weights, state = 100_000 * 8 * 4, 100_000 * 4
    assert tables.weights - cached.weights == weights - 5000
    assert tables.optimizer - cached.optimizer == state


def test_a_plan_says_which_tables_are_on_the_host(tmp_path: Path) -> None:
    (tmp_path / "m.yml").write_text(json.dumps(FIELDS))
    lines = [
        f"- {{name: t{index}, rows: 100000, columns: 8, scheme: table, ranks: {index}, "
        f"tier: {tier}}}"
        for index, tier in enumerate(("host", "device", "device", "device"))
    ]
    text = "version: 1\nmodel: m\nranks: 4\nranks_per_node: 4\ntables:\n" + "\n".join(lines)
    (tmp_path / "plan.yml").write_text(text + "\n")
    options = {"dp": 4, "plan": str(tmp_path / "plan.yml")}
    workload = dlrm(str(tmp_path / "m.yml"), cache=5000, **options)
    assert workload.summary is not None
    first, rest = workload.summary.classes
    assert (first.ranks, rest.ranks) == (1, 3)
    assert rest.memory.weights - first.memory.weights == 100_000 * 8 * 4 - 5000


def test_rows_on_disk_cross_its_link_and_then_the_hosts(tmp_path: Path) -> None:
    """All tables of a rank share its cache. Each link has its own bandwidth and latency."""
    (tmp_path / "m.yml").write_text(json.dumps(FIELDS))
    links = "cpu: {bandwidth: 10 GB/s, latency: 2 us}, nvme: {bandwidth: 1 GB/s, latency: 5 us}"
    text = PLATFORM.replace(REMOTE, f"{{model: zero_infinity, {links}}}")
    platform = arm.Platform.parse(text)

    def took(first: str, second: str) -> float:
        tiers = (first, second, "device", "device")
        lines = [
            f"- {{name: t{index}, rows: 100000, columns: 8, scheme: table, "
            f"ranks: {index // 2}, tier: {tier}}}"
            for index, tier in enumerate(tiers)
        ]
        plan = "version: 1\nmodel: m\nranks: 4\nranks_per_node: 4\ntables:\n" + "\n".join(lines)
        (tmp_path / "plan.yml").write_text(plan + "\n")
        workload = dlrm(
            str(tmp_path / "m.yml"), dp=4, plan=str(tmp_path / "plan.yml"), cache=360_000, skew=0.9
        )
        return arm.simulate(workload, platform).step_time_ns / 1e3

    demand = Demand(Popularity(100_000, 0.9), 64 * 4 * 5, 1.0, 36)
    one, both = (36 * fetched([demand] * count, 360_000)[0] for count in (1, 2))
    host, disk = 10e3, 1e3  # Bytes in a microsecond.
    none = took("device", "device")
    near = 2 + one / host
    assert took("host", "device") - none == pytest.approx(2 * near, abs=0.05)
    far = 7 + one / disk + one / host
    assert took("disk", "device") - none == pytest.approx(2 * far, abs=0.05)
    mixed = (2 + both / host) + (7 + both / disk + both / host)
    assert took("host", "disk") - none == pytest.approx(2 * mixed, abs=0.05)
    without = arm.Platform.parse(PLATFORM)
    workload = dlrm(
        str(tmp_path / "m.yml"), dp=4, plan=str(tmp_path / "plan.yml"), cache=360_000, skew=0.9
    )
    with pytest.raises(arm.InputError, match="accesses a disk, but the platform has none"):
        arm.simulate(workload, without)


def test_a_plan_mixes_tables_of_ranks_and_of_nodes(tmp_path: Path) -> None:
    """Two nodes of two ranks. Each table has 100,000 x 8 elements of 4 bytes."""
    (tmp_path / "m.yml").write_text(json.dumps(FIELDS))
    places = (("table", "1"), ("table_row", "0-1"), ("table_row", "2-3"), ("data", "0-3"))
    lines = [
        f"- {{name: t{index}, rows: 100000, columns: 8, scheme: {scheme}, ranks: {ranks}}}"
        for index, (scheme, ranks) in enumerate(places)
    ]
    text = "version: 1\nmodel: m\nranks: 4\nranks_per_node: 2\ntables:\n" + "\n".join(lines)
    (tmp_path / "plan.yml").write_text(text + "\n")
    plan = str(tmp_path / "plan.yml")
    workload = dlrm(str(tmp_path / "m.yml"), dp=4, ranks_per_node=2, plan=plan)
    assert workload.summary is not None
    held = [each.memory.weights for each in workload.summary.classes]
    table = 100_000 * 8 * 4
    assert [each - held[0] for each in held] == [0, table, 0, 0]
    platform = arm.Platform.parse(PLATFORM.replace("Switch(4)", "Switch(2)_Switch(2)"))
    assert arm.simulate(workload, platform).step_time_ns > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tier": "host"}, "cache: is missing: tables are in the host's memory"),
        ({"tier": "disk", "cache": 1}, r"unknown tier 'disk' \(allowed: device, host\)"),
        ({"tier": "host", "cache": -1}, 'cache: invalid size: "-1"'),
        ({"skew": 5.0}, "skew: invalid skew: 5.0"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        dlrm(MODEL, dp=4, **options)


def test_messages_have_the_bytes_of_their_formats() -> None:
    """A table of 8 columns on each of 4 NPUs, 256 samples in all: 8 bits have a scale for each row,
    or for 512 gradients. 16-bit formats are a width of 2."""
    fields = {**FIELDS, "tables": [{"count": 4, "rows": 1000, "dim": 8, "pooling": 5}]}
    model = Model("small", "dlrm", {key: value for key, value in fields.items() if key != "family"})

    def sent(**options: object) -> dict[tuple[str, str], int]:
        found = dlrm(model, dp=4, **options).summary
        assert found is not None
        return {(each.group, each.kind): each.bytes for each in found.classes[0].volumes}

    plain = sent(sharding="table")
    eight = sent(sharding="table", messages="forward=int8,backward=fp8,all-reduce=int8")
    parameters = (16 * 8 + 8) + (8 + 10 + 1)
    assert plain["", "all_reduce"] == 4 * parameters
    assert eight["", "all_reduce"] == parameters + 2 * 4  # two layers, a scale each
    assert plain["pooled", "all_to_all"] == 2 * 256 * 8 * 4
    assert eight["pooled", "all_to_all"] == 2 * 256 * (8 + 4)
    for sharding in ("table", "row", "table_row"):
        node = {"ranks_per_node": 2} if sharding == "table_row" else {}
        text = "forward=fp16,backward=bf16,reduce-scatter=fp16"
        one = sent(sharding=sharding, messages=text, **node)
        other = sent(sharding=sharding, precision="bf16", gradient_precision="fp32", **node)
        assert one == other  # What is not named has the bytes of the numbers that are sent.
    rows = sent(sharding="row", messages="reduce-scatter=int8")
    assert rows["pooled", "reduce_scatter"] == 256 * 4 * (8 + 4)
    assert rows["pooled", "all_gather"] == 64 * 4 * 8 * 4


COPIES = """
topology: Switch(2)
links: {bandwidth: 100 GB/s, per: npu, latency: 1 us}
npu: {peak: 1000 TFLOPS, memory: {bandwidth: 1000 GB/s, capacity: 80 GB}}
"""


@pytest.mark.parametrize(("optimizer", "state"), [("sgd", 0), ("rowwise_adagrad", 4 * 10**6)])
def test_every_rank_updates_its_copies(optimizer: str, state: int) -> None:
    """10^6 rows of 64: after the all-reduce, an NPU reads the gradients, and reads and writes
    weights and states, at 1000 GB/s. Before it, 2 x 64 samples x 8 rows of gradients."""
    fields = {
        "dense_features": 4,
        "bottom": [8],
        "interaction": {"kind": "concat"},
        "top": [1],
        "tables": [{"rows": 10**6, "dim": 64, "pooling": 8}],
    }
    workload = arm.workload.dlrm(
        arm.model.Model("copied", "dlrm", fields),
        dp=2,
        local_batch=64,
        sharding="data",
        optimizer=optimizer,
        precision="fp32",
        table_precision="fp16",
        gradient_precision="fp32",
    )
    report = arm.simulate(workload, arm.Platform.parse(COPIES)).report
    found = {row["name"]: row["total_ns"] / 2 for row in report["operations"]}
    changed = 10**6 * 64 * (2 * 2 + 4) + 2 * state
    assert found["embedding.weight_gradient.optimizer"] == pytest.approx(changed / 1000, rel=1e-6)
    added = 64 * 64 * 4 + 64 * 8 * 8 + 2 * 64 * 8 * 64 * 4
    assert found["embedding.weight_gradient"] == pytest.approx(added / 1000, rel=1e-6)
