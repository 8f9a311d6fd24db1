"""`armillary plan`: a sharding plan for the embedding tables of a recommendation model."""

from __future__ import annotations

import json as json_text
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import __version__
from ..platform import Platform
from . import completion, output
from .options import Json, PlatformName, ReportName, Settings, settings
from .verb_options import takes

if TYPE_CHECKING:
    from ..plan.choice import Plan

SCHEMA = "armillary.plan/1"

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Preset or model file of a DLRM, such as dlrm-neo-a.",
        autocompletion=completion.workloads,
    ),
]
_Precision = Annotated[str | None, typer.Option(metavar="fp32|tf32|fp16|bf16|fp8|int8")]


@dataclass(frozen=True, kw_only=True)
class _Main:
    """Job and machine."""

    platform: PlatformName
    ranks: Annotated[int | None, typer.Option(metavar="N", min=1)] = None
    """Ranks; the platform's outermost dimension is resized to them. Default: its NPUs."""
    global_batch: Annotated[int | None, typer.Option(metavar="N")] = None
    """Samples of all ranks. Default: local batch times ranks."""
    local_batch: Annotated[int | None, typer.Option(metavar="N")] = None
    """Samples of a rank. Default: the model's."""
    capacity: Annotated[str | None, typer.Option(metavar="BYTES")] = None
    """Most memory of a rank, such as 32 GB. Default: memory that surely fits the platform's NPU."""
    out: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE")] = None
    """Write the plan here (.yml or .json); - for standard output."""
    json: Json = None
    report: ReportName = None
    set_: Settings = None


@dataclass(frozen=True, kw_only=True)
class _Tables(_Main):
    """Tables and their memory."""

    schemes: Annotated[str | None, typer.Option(metavar="NAMES")] = None
    """Ways to shard a table that may be taken, such as table,column. Default: all."""
    ranks_per_node: Annotated[int | None, typer.Option(metavar="N")] = None
    """Ranks of a node. Default: the platform's innermost dimension."""
    near: Annotated[bool, typer.Option("--near")] = False
    """Also take plans that may not fit in memory (fits: near)."""
    cache: Annotated[str | None, typer.Option(metavar="BYTES")] = None
    """Memory of a rank for rows of tables on its host or on disk, such as 20 GB. Tables go there
    if they have no room otherwise."""
    host_capacity: Annotated[str | None, typer.Option(metavar="BYTES")] = None
    """Most memory of a rank on its host, such as 187 GB; more goes to the disk. Default: the
    platform's remote_memory.cpu.capacity, or any."""
    skew: Annotated[float | None, typer.Option(metavar="X")] = None
    """Lookups of row i are in proportion to i^-X. Default: 1.05."""
    optimizer: Annotated[str, typer.Option(metavar="NAME")] = "rowwise_adagrad"
    """Optimizer for the embedding tables: rowwise_adagrad, adagrad or sgd."""
    precision: _Precision = None
    """Numbers of the MLPs: weights and activations. Default: the model's."""
    gradient_precision: _Precision = None
    """Numbers of the gradients that are all-reduced. Default: the model's."""
    table_precision: _Precision = None
    """Numbers in the tables. Default: the model's."""
    messages: Annotated[str | None, typer.Option(metavar="NAME=FORMAT,...")] = None
    """Formats of what is sent, such as forward=fp16,backward=bf16: forward, backward,
    reduce-scatter, all-reduce as fp32, fp16, bf16, int8 or fp8. Default: the model's."""


@dataclass(frozen=True, kw_only=True)
class PlanOptions(_Tables):
    """Costs and simulation."""

    cost: Annotated[str, typer.Option(metavar="platform|volume")] = "platform"
    """Costs that are balanced: seconds by the platform's kernels and simulated collectives, or
    weighted bytes of access and messages."""
    access_weight: Annotated[float, typer.Option(metavar="X")] = 1.0
    """With volume: weight of a byte of access."""
    message_weight: Annotated[float, typer.Option(metavar="X")] = 1.0
    """With volume: weight of a byte sent."""
    simulate: bool = True
    """Simulate a step with the best plans by costs and with simple ones, and take the fastest.
    Without, take the lowest costs."""
    overlap: bool = True
    """Whether computation of the simulated steps goes on while pooled rows and gradients are
    exchanged."""
    bucket_mb: Annotated[float | None, typer.Option(metavar="MB")] = None
    """Gradients of the simulated steps are summed in buckets of at most this size. Default: each
    layer's on their own."""
    backend: Annotated[
        str | None, typer.Option(metavar="NAME", autocompletion=completion.backends)
    ] = None
    """Network of these simulations. Default: the platform's, or analytical if that has packets or
    flits."""


@takes(PlanOptions)
def plan(model: Model, each: PlanOptions) -> None:
    """Choose how embedding tables are sharded over ranks.

    Takes the plan whose simulated step is the fastest of those compared. Prints how far its costs
    can be from the lowest ones."""
    with output.guard():
        from ..model.sharding_plan_file import as_file
        from ..report import planner, words

        files = {"--output": each.out, "--json": each.json, "--report": each.report}
        output.claim(files, each.platform, model)
        found = _found(model, each)
        data = {"schema": SCHEMA, "version": __version__, **found.to_dict()}
        # Files first: a reader of standard output may leave.
        if each.out is not None:
            output.write_text(each.out, as_file(found.sharding, each.out), "sharding plan")
        output.write_json(each.json, json_text.dumps(data, indent=2))
        if each.report is not None:
            output.write_page(each.report, planner.page(data).html())
        if "-" not in files.values():
            words.show(planner.page(data), output.console())


def _found(model: str, each: PlanOptions) -> Plan:
    """The plan that the options ask for."""
    from ..plan import plan as run

    of_model = _of_model(each)
    target = Platform.load(each.platform, settings(each.set_, each.ranks))
    with output.progress("planning", clock=False) as update:
        return run(
            model,
            target,
            cost=each.cost,  # type: ignore[arg-type] # checked there
            access_weight=each.access_weight,
            message_weight=each.message_weight,
            capacity=each.capacity,
            ranks_per_node=each.ranks_per_node,
            host_capacity=each.host_capacity,
            near=each.near,
            simulate=each.simulate,
            backend=each.backend,
            schemes=None if each.schemes is None else each.schemes.replace(" ", "").split(","),
            progress=None if update is None else lambda share: update(share, 0.0),
            **of_model,
        )


def _of_model(each: PlanOptions) -> dict[str, Any]:
    """The options that the model's workload takes, those that were given."""
    given = {
        "local_batch": each.local_batch,
        "global_batch": each.global_batch,
        "precision": each.precision,
        "gradient_precision": each.gradient_precision,
        "table_precision": each.table_precision,
        "messages": each.messages,
        "optimizer": each.optimizer,
        "cache": each.cache,
        "skew": each.skew,
        "overlap": None if each.overlap else False,
        "bucket_mb": each.bucket_mb,
    }
    return {key: value for key, value in given.items() if value is not None}
