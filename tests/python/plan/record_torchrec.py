"""Records what TorchRec's planner finds for the random problems, at our costs.

Run once where torchrec and fbgemm are installed: `python record_torchrec.py 500`. It writes
`data/torchrec.json`: for each seed the greatest load of TorchRec's plan, or null where it finds
none. TorchRec enumerates the schemes that we do, with our cost and memory of each shard, and
searches with its default proposers and partitioner."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchrec
from problems import Instance, instance
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.types import (
    ParameterConstraints,
    Perf,
    PlannerError,
    ShardEstimator,
    Storage,
)

from armillary.plan.costs import volume_rates
from armillary.plan.costs import ways as ways_of

SCHEMES = {
    "table_wise": "table",
    "column_wise": "column",
    "row_wise": "row",
    "table_row_wise": "table_row",
    "data_parallel": "data",
}


def estimator(problem: Instance, perf: bool) -> Any:  # noqa: ANN401 - a class of torchrec's
    """Our costs as TorchRec asks for them."""
    tables = {table.name: table for table in problem.tables}

    class Ours(ShardEstimator):  # type: ignore[misc]
        def __init__(self, topology: object, constraints: object = None) -> None: ...

        def estimate(self, sharding_options: Any, **_: object) -> None:  # noqa: ANN401
            for option in sharding_options:
                way = matching(problem, tables[option.name], option)
                for at, shard in enumerate(option.shards):
                    place = at if len(way.costs) > 1 else 0
                    if perf:
                        shard.perf = Perf(way.costs[place], 0, 0, 0)
                    else:
                        shard.storage = Storage(hbm=way.memory[place], ddr=0)

    return Ours(None)


def matching(problem: Instance, table: Any, option: Any) -> Any:  # noqa: ANN401
    """Our way to shard a table as TorchRec's option does."""
    scheme = SCHEMES[option.sharding_type]
    cut = len(option.shards)
    found = [way for way in ways_of(table, problem.sizes, volume_rates()) if way.scheme == scheme]
    if scheme == "column":
        found = [way for way in found if len(way.costs) == cut] or [
            way for way in ways_of(table, problem.sizes, volume_rates()) if way.scheme == "table"
        ]
    return found[0]


def greatest(problem: Instance) -> float | None:
    """The greatest load of TorchRec's plan, at our costs."""
    count, node = problem.sizes.ranks, problem.sizes.ranks_per_node
    configs = [
        torchrec.EmbeddingBagConfig(
            name=table.name,
            embedding_dim=table.dim,
            num_embeddings=table.rows,
            feature_names=[f"f_{table.name}"],
        )
        for table in problem.tables
    ]
    module = torchrec.EmbeddingBagCollection(tables=configs, device=torch.device("meta"))
    topology = Topology(
        world_size=count,
        local_world_size=node,
        compute_device="cuda",
        hbm_cap=problem.room,
    )
    kinds = [name for name in SCHEMES if node < count or name != "table_row_wise"]
    constraints = {
        table.name: ParameterConstraints(
            sharding_types=kinds, compute_kernels=["fused", "dense"], min_partition=16
        )
        for table in problem.tables
    }
    both = [estimator(problem, True), estimator(problem, False)]
    planner = EmbeddingShardingPlanner(
        topology=topology,
        batch_size=problem.sizes.local_batch,
        enumerator=EmbeddingEnumerator(
            topology=topology,
            batch_size=problem.sizes.local_batch,
            constraints=constraints,
            estimator=both,
        ),
        storage_reservation=Nothing(),
        constraints=constraints,
        debug=False,
        stats=[],
    )
    try:
        plan = planner.plan(module, [EmbeddingBagCollectionSharder()])
    except PlannerError:
        return None
    return scored(problem, plan)


class Nothing:
    """Reserves no memory."""

    last_reserved_topology = None

    def reserve(self, topology: Any, **_: object) -> Any:  # noqa: ANN401
        return topology


def scored(problem: Instance, plan: Any) -> float:  # noqa: ANN401
    """The greatest load of a plan of TorchRec."""
    loads = np.zeros(problem.sizes.ranks)
    (module,) = plan.plan.values()
    for table in problem.tables:
        planned = module[table.name]
        scheme = SCHEMES[planned.sharding_type]
        found = [w for w in ways_of(table, problem.sizes, volume_rates()) if w.scheme == scheme]
        if scheme in ("row", "data"):
            loads += found[0].costs[0]
        elif scheme == "table_row":
            loads[sorted(planned.ranks)] += found[0].costs[0]
        else:
            cut = len(planned.ranks)
            same = [way for way in found if len(way.costs) == cut]
            whole = ways_of(table, problem.sizes, volume_rates())[0]
            way = same[0] if same else whole
            for rank, cost in zip(planned.ranks, way.costs, strict=True):
                loads[rank] += cost
    return float(loads.max())


if __name__ == "__main__":
    count = int(sys.argv[1])
    found = {str(seed): greatest(instance(seed)) for seed in range(count)}
    out = {"source": f"torchrec {torchrec.__version__}", "greatest_load": found}
    path = Path(__file__).parent / "data" / "torchrec.json"
    path.write_text(json.dumps(out, indent=0) + "\n", encoding="utf-8")
