"""Answers of TorchRec: the greatest loads of its plans for random problems at our costs, and the
predictions of its models with the weights of `examples/checkpoints`.

TorchRec enumerates the schemes that we do, with our cost and memory of each shard, and searches
with its default proposers and partitioner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import record as checkpoints
import torch
import torchrec
from answers import Answers, main
from problems import Instance, instance
from torch.distributed.checkpoint.state_dict_loader import load
from torchrec import KeyedJaggedTensor
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
from torchrec.models.dlrm import DLRM, DLRM_DCN, DLRMTrain

from armillary.plan.costs import volume_rates
from armillary.plan.costs import ways as ways_of

CHECKPOINTS = Path(checkpoints.__file__).parent
SHAPE = (checkpoints.DENSE, checkpoints.BOTTOM, checkpoints.TOP)
PROBLEMS = range(0, 500, 10)
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
        """All that the topology has."""
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


def predictions() -> dict[str, list[float]]:
    """Logits of TorchRec's models for the recorded samples, with weights from the files."""
    dot = DLRMTrain(DLRM(checkpoints.collection(), *SHAPE))
    dot.load_state_dict(torch.load(CHECKPOINTS / "torchrec.pt", weights_only=True))
    cross = DLRM_DCN(checkpoints.collection(), *SHAPE, 2, 3)
    state = {"model": cross.state_dict()}
    load(state, checkpoint_id=CHECKPOINTS / "torchrec-dcn", no_dist=True)
    cross.load_state_dict(state["model"])
    indices = checkpoints.INDICES
    batch = KeyedJaggedTensor.from_lengths_sync(
        [f"c{number}" for number in range(len(indices))],
        indices.reshape(-1),
        torch.ones(indices.numel(), dtype=torch.int32),
    )
    models = {"torchrec": dot.model, "torchrec-dcn": cross}
    with torch.no_grad():
        return {
            name: model(checkpoints.COUNTS, batch).view(-1).tolist()
            for name, model in models.items()
        }


def answers() -> Answers:
    """All of them."""
    loads = {str(seed): greatest(instance(seed)) for seed in PROBLEMS}
    return {"greatest_load": loads, "predictions": predictions()}


if __name__ == "__main__":
    main(torchrec.__version__, answers)
