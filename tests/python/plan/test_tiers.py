"""Plans for models that are larger than memory: tables on hosts and on disks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from larger_than_memory import BYTES, TABLES, model, platform

import armillary as arm
from armillary.model.dlrm import EmbeddingTable
from armillary.model.sharding_plan_file import read_plan
from armillary.plan.costs import Sizes, hosted, platform_rates, ways


def test_what_hosts_cannot_hold_goes_to_the_disk(tmp_path: Path) -> None:
    """Eight tables of 132 MB, 600 MB of memory and 400 MB on hosts: some are left for the disk,
    those with the fewest lookups first. Every memory is kept."""
    name, cache = model(tmp_path), 20_000_000
    found = arm.plan(name, platform("200 MB"), cache=cache, simulate=False)
    tiers = {table.name: table.tier for table in found.sharding.tables}
    assert found.on_disk == list(tiers.values()).count("disk") > 0
    assert sum(found.disk) == found.on_disk * BYTES
    assert sum(found.host) == found.on_hosts * BYTES
    assert max(found.host) <= 200e6 and max(found.memory) <= found.capacity == 300e6
    assert found.highest >= found.bound > 0
    slower = [int(each[1:]) for each, tier in tiers.items() if tier == "disk"]
    assert max(slower) < TABLES - 1
    found.write(tmp_path / "plan.yml")
    assert read_plan(tmp_path / "plan.yml").tables == found.sharding.tables
    roomy = arm.plan(name, platform("1 GB"), cache=cache, simulate=False)
    assert roomy.on_disk == 0 < roomy.on_hosts
    assert roomy.highest < found.highest
    assert roomy.bound == pytest.approx(found.bound)
    no_host = arm.plan(name, platform("1 GB"), cache=cache, host_capacity=0, simulate=False)
    assert no_host.on_hosts == 0 < no_host.on_disk


def test_missing_memory_is_said_in_bytes(tmp_path: Path) -> None:
    """Rows spread evenly: each of two ranks has half of each table."""
    name = model(tmp_path)
    options: dict[str, Any] = {"cache": 20_000_000, "schemes": ("row",)}
    bare = arm.Platform.parse(
        "topology: FullyConnected(2)\nlinks: {bandwidth: 10 GB/s, latency: 1 us, per: link}\n"
        "npu: {peak: 1 TFLOPS, memory: {bandwidth: 20 GB/s, capacity: 300 MB}}\n"
        "remote_memory: {model: link, sharing: per_npu, bandwidth: 10 GB/s, latency: 1 us}\n"
    )
    half = BYTES // 2
    with pytest.raises(arm.InputError) as refused:
        arm.plan(name, bare, host_capacity=half, **options)
    said = str(refused.value)
    fits = 4  # of the halves of 66 MB, in 300 MB less the cache, buffers and MLPs
    assert f"rank 0 has {(TABLES - fits) * half:,} bytes of tables on its host" in said
    assert f"{(TABLES - fits - 1) * half:,} more than the {half:,}" in said
    assert "nvme" in said
    small = platform("0 MB", f"{{bandwidth: 2 GB/s, capacity: {half} B}}")
    with pytest.raises(
        arm.InputError, match=r"nvme.capacity: rank 0 has .* bytes of tables on dis"
    ):
        arm.plan(name, small, **options)
    with pytest.raises(arm.InputError, match=r"bytes over all ranks.*: [\d,]+ are missing"):
        arm.plan(name, bare)


def test_the_cost_of_a_table_on_disk_by_hand() -> None:
    """Each row is fetched and written back once, over the disk's link and then the host's."""
    table = EmbeddingTable("t", 100, 64, 16)
    sizes = Sizes(2, 2, 1024, 4, 4, 4, 4, 8, "rowwise_adagrad")
    rates = platform_rates(platform("1 GB"), 2)
    (whole, *_) = ways(table, sizes, rates)
    row = 64 * 4 + 4
    for tier, seconds in (("host", 1 / 10e9), ("disk", 1 / 10e9 + 1 / 2e9)):
        away = hosted(whole, table, sizes, rates, 0.0, tier)  # type: ignore[arg-type]
        assert away.costs[0] - whole.costs[0] == pytest.approx(2 * 100 * row * seconds)
        assert away.away == (100 * row,)
