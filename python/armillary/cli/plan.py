"""`armillary plan`: a sharding plan for the embedding tables of a recommendation model."""

from __future__ import annotations

import json as json_text
from typing import Annotated, Any

import typer

from .. import __version__
from ..platform import Platform
from . import completion, output
from .options import Json, PlatformName, ReportName, Settings, byte_count, settings

SCHEMA = "armillary.plan/1"

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Preset or model file of a DLRM, such as dlrm-neo-a.",
        autocompletion=completion.workloads,
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        metavar="N",
        min=1,
        help="Ranks; the platform's outermost dimension is resized to them. Default: its NPUs.",
    ),
]
Cost = Annotated[
    str,
    typer.Option(
        "--cost",
        metavar="platform|volume",
        help="What is balanced: seconds by the platform's kernels and simulated collectives, or "
        "weighted bytes of access and messages.",
    ),
]
Access = Annotated[
    float,
    typer.Option("--access-weight", metavar="X", help="With volume: weight of a byte of access."),
]
Message = Annotated[
    float,
    typer.Option("--message-weight", metavar="X", help="With volume: weight of a byte sent."),
]
LocalBatch = Annotated[
    int | None,
    typer.Option("--local-batch", metavar="N", help="Samples of a rank. Default: the model's."),
]
GlobalBatch = Annotated[
    int | None, typer.Option("--global-batch", metavar="N", help="Samples of all ranks, instead.")
]
Capacity = Annotated[
    str | None,
    typer.Option(
        "--capacity",
        metavar="BYTES",
        help="Most memory of a rank, such as 32 GB. Default: what surely fits the platform's NPU.",
    ),
]
Near = Annotated[
    bool,
    typer.Option("--near", help="Also take plans that may not fit in memory (fits: near)."),
]
PerNode = Annotated[
    int | None,
    typer.Option(
        "--ranks-per-node",
        metavar="N",
        help="Ranks of a node. Default: the platform's innermost dimension.",
    ),
]
Schemes = Annotated[
    str | None,
    typer.Option(
        "--schemes",
        metavar="NAMES",
        help="Ways to shard a table that may be taken, such as table,column. Default: all.",
    ),
]
Cache = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="BYTES",
        help="Memory of a rank for rows of tables on its host or on disk, such as 20 GB. Tables go "
        "there if they have no room otherwise.",
    ),
]
HostCapacity = Annotated[
    str | None,
    typer.Option(
        "--host-capacity",
        metavar="BYTES",
        help="Most memory of a rank on its host, such as 187 GB; more goes to the disk. Default: "
        "the platform's remote_memory.cpu.capacity, or any.",
    ),
]
Skew = Annotated[
    float | None,
    typer.Option(
        "--skew", metavar="X", help="Lookups of row i are in proportion to i^-X. Default: 1.05."
    ),
]
Optimizer = Annotated[
    str,
    typer.Option(
        "--optimizer", metavar="NAME", help="Of the tables: rowwise_adagrad, adagrad or sgd."
    ),
]
EmbeddingWidth = Annotated[
    int | None,
    typer.Option(
        "--embedding-width",
        metavar="BYTES",
        help="Of an element of a table. Default: the model's.",
    ),
]
MessageWidth = Annotated[
    int | None,
    typer.Option(
        "--message-width",
        metavar="BYTES",
        help="Of an element of pooled rows and their gradients on the network. Default: the "
        "model's width.",
    ),
]
Overlap = Annotated[
    bool,
    typer.Option(
        "--overlap/--no-overlap",
        help="Whether computation of the simulated steps goes on while pooled rows and gradients "
        "are exchanged.",
    ),
]
BucketMb = Annotated[
    float | None,
    typer.Option(
        "--bucket-mb",
        metavar="MB",
        help="Gradients of the simulated steps are summed in buckets of at most this size. "
        "Default: each layer's on their own.",
    ),
]
Simulate = Annotated[
    bool,
    typer.Option(
        "--simulate/--no-simulate",
        help="Simulate a step with the best plans by costs and with simple ones, and take the "
        "fastest. Without, take the lowest costs.",
    ),
]
Backend = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="Network of these simulations. Default: the platform's, or analytical if that has "
        "packets or flits.",
        autocompletion=completion.backends,
    ),
]
Out = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the plan here (.yml or .json)."),
]


def plan(
    model: Model,
    platform: PlatformName,
    ranks: Ranks = None,
    cost: Cost = "platform",
    access_weight: Access = 1.0,
    message_weight: Message = 1.0,
    local_batch: LocalBatch = None,
    global_batch: GlobalBatch = None,
    capacity: Capacity = None,
    ranks_per_node: PerNode = None,
    schemes: Schemes = None,
    cache: Cache = None,
    host_capacity: HostCapacity = None,
    near: Near = False,
    skew: Skew = None,
    optimizer: Optimizer = "rowwise_adagrad",
    embedding_width: EmbeddingWidth = None,
    message_width: MessageWidth = None,
    overlap: Overlap = True,
    bucket_mb: BucketMb = None,
    simulate: Simulate = True,
    backend: Backend = None,
    out: Out = None,
    json: Json = None,
    report: ReportName = None,
    set_: Settings = None,
) -> None:
    """Choose how embedding tables are sharded over ranks.

    Takes the plan whose simulated step is the fastest of those compared. Prints how far its costs
    can be from the lowest ones."""
    with output.guard():
        from ..plan import plan as run
        from ..report import planner as shown

        output.claim({"--output": out, "--json": json, "--report": report}, platform, model)
        given: dict[str, Any] = {
            "local_batch": local_batch,
            "global_batch": global_batch,
            "embedding_width": embedding_width,
            "forward_width": message_width,
            "backward_width": message_width,
            "optimizer": optimizer,
            "cache": None if cache is None else byte_count(cache, "--cache"),
            "skew": skew,
            "overlap": None if overlap else False,
            "bucket_mb": bucket_mb,
        }
        target = Platform.load(platform, settings(set_, ranks))
        with output.progress("planning", clock=False) as update:
            found = run(
                model,
                target,
                cost=cost,  # type: ignore[arg-type] # checked there
                access_weight=access_weight,
                message_weight=message_weight,
                capacity=None if capacity is None else byte_count(capacity, "--capacity"),
                ranks_per_node=ranks_per_node,
                host_capacity=None
                if host_capacity is None
                else byte_count(host_capacity, "--host-capacity"),
                near=near,
                simulate=simulate,
                backend=backend,
                schemes=None if schemes is None else schemes.replace(" ", "").split(","),
                progress=None if update is None else lambda share: update(share, 0.0),
                **{key: value for key, value in given.items() if value is not None},
            )
        data = {"schema": SCHEMA, "version": __version__, **found.to_dict()}
        # Files first: a reader of standard output may leave.
        if out is not None:
            found.write(out)
            output.log(f"sharding plan written to {out}")
        output.write_json(json, json_text.dumps(data, indent=2))
        if report is not None:
            output.write_page(report, shown.page(data).html())
        if "-" not in (json, report):
            for part in shown.terminal(data):
                output.console().print(part)
