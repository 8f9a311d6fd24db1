"""Recommendation models: the training flows of the HOTI 2020 paper's Fig. 3 and of Neo.

Not here: what the model consists of (`model/dlrm.py`), where its tables lie (`model/sharding.py`),
the presets (`models/dlrm-*.yml`).

Model, one iteration on one NPU (MLPs data-parallel, tables shared out):

    lengths, indices            all-to-all (flow `neo`; when pipelined, during the top MLP of the
                                previous iteration)
    embedding.forward           one fused kernel, then all-to-all and reduce-scatter of pooled rows,
                                alongside the bottom MLP
    interaction, top            forward, then backward; the weight gradients of each layer are
                                all-reduced alongside what follows
    interaction                 backward, then all-to-all and all-gather of the pooled rows'
                                gradients, alongside the bottom MLP
    embedding.weight_gradient   one fused kernel: gradient and optimizer, after that exchange

The next forward pass of a layer waits for its all-reduce, the next lookup for the update. Fused
kernels are bound by memory:

    forward  = lookups x (dim x embedding_width + index) + pooled x forward_width
    backward = pooled x backward_width + lookups x (2 x dim x embedding_width + index) + 2 x state

Sources: Rashidi et al., HOTI 2020, section III-A and Fig. 3; Mudigere et al., Neo and ZionEX, ISCA
2022, sections 4, 5.1, 7.1 and Eq. 1."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .. import old_words
from ..errors import InputError, Problem
from ..model.dlrm import Dlrm, parse
from ..model.files import Model, load_model
from ..model.sharding import (
    Fetched,
    NpuKind,
    ShardingRequest,
    ShardLoads,
    TableLoad,
    loads_of,
    place,
    require_room,
    simulation_problems,
)
from ..model.sharding_plan import ShardingPlan, Tier
from ..model.sharding_plan_file import checked, read_plan
from ..option_fields import takes_options
from ..units import PS_PER_US, counted
from .dlrm_bench import read_parts
from .dlrm_cache import cached
from .dlrm_flow import DENSE_OPTIMIZERS, DlrmFlow, DlrmRun, HostWork, activations, dense_layers
from .dlrm_hosts import host_work
from .dlrm_options import DlrmSizes, Options, options
from .program import Program
from .summary import Memory, Offloaded, RankClass, Summary
from .workload import Workload

EVERYBODY = ("inputs", "pooled", "copies")
"""Groups of all ranks in addition to the MLPs' own: ranks with other shards interleave their
collectives differently."""


@takes_options(Options, model="dlrm-hoti")
def dlrm(model: str | Model = "dlrm-hoti", **given: object) -> Workload:
    """Iterations of a recommendation model: `dlrm("dlrm-mlperf", dp=128)`.

    The options are the fields of `Options` (`dlrm_options.py`). Raises `InputError` listing every
    problem, with the nearest values that work."""
    return _workload(resolved(model, given))


def sharding_plan(model: str | os.PathLike[str] | Model, **given: object) -> ShardingPlan:
    """The rank of each shard of each table in the workload `dlrm(model, ...)`. Raises
    `InputError`."""
    return resolved(model, given).placement.plan


def resolved(model: str | os.PathLike[str] | Model, given: Mapping[str, object]) -> DlrmRun:
    """The model, sizes and placement of the workload `dlrm(model, **given)`. Raises
    `InputError`."""
    loaded = load_model(model)
    found = parse(loaded)
    chosen, sizes = options(found, old_words.today("dlrm", given))
    placement = _placement(found, chosen, sizes)
    parts = None
    if chosen.bench is not None:
        parts = read_parts(chosen.bench, found.name, chosen.dp, sizes.local_batch)
    return DlrmRun(found, chosen, sizes, placement, parts, loaded.notes)


def _placement(model: Dlrm, chosen: Options, sizes: DlrmSizes) -> ShardLoads:
    """Where the tables are: as the plan says, or sharded here."""
    first = int(chosen.bottom == "first")
    if chosen.plan is not None:
        if isinstance(chosen.plan, ShardingPlan):
            plan, file = checked(chosen.plan), ""
        else:
            plan, file = read_plan(chosen.plan), chosen.plan
        problems = simulation_problems(plan, model.tables, chosen.dp, file, first)
        if problems:
            raise InputError(problems)
        found = cached(loads_of(plan.ordered(model.tables), model.tables), model, chosen, sizes)
        require_room(found, sizes.embedding, chosen.optimizer, chosen.capacity_bytes)
    else:
        request = ShardingRequest(
            scheme=chosen.sharding,
            npus=chosen.dp - first,
            local_batch=sizes.local_batch,
            npus_per_node=chosen.ranks_per_node,
            column_shards=chosen.column_shards,
            embedding_width=sizes.embedding,
            gradient_width=sizes.gradient,
            forward_width=sizes.forward,
            backward_width=sizes.backward,
            optimizer=chosen.optimizer,
            capacity=chosen.capacity_bytes,
            tier=chosen.tier,
            cache=chosen.cache_bytes or 0,
        )
        found = place(model.tables, request, model.name)
        if first:
            found = loads_of(found.plan.shifted(first), model.tables)
        found = cached(found, model, chosen, sizes)
    if first:
        _require_tables(found)
    return found


def _require_tables(placement: ShardLoads) -> None:
    """Refuses an NPU without tables other than the first, which it would be taken for."""
    if TableLoad() in placement.whole[1:]:
        shards = sum(load != TableLoad() for load in placement.whole)
        npus = len(placement.whole) - 1
        said = (
            f"{counted(shards, 'shard')} of tables for {counted(npus, 'NPU')} besides the first one"
        )
        allowed = f"shared, or dp up to {shards + 1}, or sharding column"
        raise InputError([Problem("", "bottom", said, allowed)])


def _workload(run: DlrmRun) -> Workload:
    hosts = host_work(run)
    programs = [_program(run, kind, hosts) for kind in run.placement.kinds]
    return placed(run, programs, _summary(run, programs, hosts))


def placed(run: DlrmRun, programs: Sequence[Program], summary: Summary | None) -> Workload:
    """A workload of one program for each kind of NPU in the placement.

    Ranks with equal loads share a program; with tables shared out to nodes, those of a node do, if
    they hold the same."""
    name, kinds = run.model.name, run.placement.kinds
    if run.placement.node:
        each = run.placement.npus_per_node
        axes = [("local", each), ("node", run.options.dp // each)]
        along = {
            **{group: ["local", "node"] for group in EVERYBODY},
            "node": ["local"],
            "rail": ["node"],
        }
        by = ["local", "node"] if run.placement.mixed else ["node"]
        return Workload.mesh(name, axes, along, by, programs, summary, _assumed(run))
    fetched = run.placement.fetched or (Fetched(),) * run.options.dp
    number = {(kind.whole, kind.fetched): index for index, kind in enumerate(kinds)}
    groups = {group: range(run.options.dp) for group in EVERYBODY}
    ranks = zip(run.placement.whole, fetched, strict=True)
    places = [number[rank] for rank in ranks]
    return Workload.listed(name, programs, places, groups, summary, _assumed(run))


def _program(run: DlrmRun, kind: NpuKind, hosts: HostWork) -> Program:
    """Program of an NPU of this kind."""
    flow = DlrmFlow(run, kind, hosts)
    for _ in range(run.options.passes):
        flow.iteration()
        flow.program.hold(flow.at[0], frees=activations(run, kind.whole, kind.node))
    return flow.program


def _summary(run: DlrmRun, programs: Sequence[Program], hosts: HostWork) -> Summary:
    kinds, classes = run.placement.kinds, []
    for index, (kind, program) in enumerate(zip(kinds, programs, strict=True)):
        volumes = tuple(
            replace(
                volume,
                count=volume.count // run.options.passes,
                bytes=volume.bytes // run.options.passes,
            )
            for volume in program.volumes
        )
        name = (
            "all"
            if len(kinds) == 1
            else f"node {index}"
            if run.placement.node and not run.placement.mixed
            else f"shard set {index}"
        )
        classes.append(
            RankClass(
                name,
                kind.ranks,
                program.operations // run.options.passes,
                volumes,
                _memory(run, kind.first),
                _away(run, kind.first, "host"),
                _away(run, kind.first, "disk"),
            )
        )
    flops = sum(entry.ranks * entry.operations for entry in classes)
    parameters = run.model.parameters
    active = run.model.dense_parameters + sum(
        table.pooling * table.dim for table in run.model.tables
    )
    return Summary(
        run.model.name,
        "dlrm",
        run.options.dp,
        parameters,
        active,
        run.batch,
        flops,
        flops,
        0.0,
        tuple(classes),
        (*_notes(run, hosts), *_assumed(run)),
    )


def _memory(run: DlrmRun, npu: int) -> Memory:
    """Bytes on `npu`."""
    placement = run.placement
    tables, state = placement.memory(npu, run.sizes.embedding, run.options.optimizer)
    dense = sum(layer.parameters for layer, _ in dense_layers(run, placement.whole[npu]))
    gradients = (dense + placement.data.parameters) * run.sizes.gradient
    state += dense * DENSE_OPTIMIZERS[run.options.dense_optimizer]
    return Memory(
        tables + dense * run.sizes.dense, gradients, state, activations(run, *placement.on(npu))
    )


def _away(run: DlrmRun, npu: int, tier: Tier) -> Offloaded:
    """Tables of `npu` in one of the slower memories."""
    sizes = run.sizes.embedding, run.options.optimizer
    tables, state = run.placement.away(npu, tier, *sizes)
    return Offloaded(tables=tables, optimizer=state)


def _notes(run: DlrmRun, hosts: HostWork) -> tuple[str, ...]:
    tables = ", ".join(f"{count} {scheme}" for scheme, count in run.placement.schemes)
    kinds, sizes = run.placement.kinds, (run.sizes.embedding, run.options.optimizer)
    held = [sum(run.placement.memory(kind.first, *sizes)) for kind in kinds]
    whole = sum(each * kind.ranks for each, kind in zip(held, kinds, strict=True))
    notes = [
        f"tables: {tables}; bytes of tables and optimizer state on an NPU: {min(held)} to "
        f"{max(held)}, {whole} over all"
    ]
    if any(hosts):
        reading, writing = hosts.reading_ps / PS_PER_US, hosts.writing_ps / PS_PER_US
        notes.append(
            f"hosts, in each step: samples arrive in {reading:.1f} us, checkpoints leave in "
            f"{writing:.1f} us, and an NPU copies {hosts.copied} bytes of them to its host"
        )
    dims = [load.dims for load in run.placement.whole]
    if max(dims) > 0 and min(dims) == 0:
        notes.append(f"{dims.count(0)} of {len(dims)} NPUs hold no whole table or column shard")
    return tuple(notes)


def _assumed(run: DlrmRun) -> tuple[str, ...]:
    """Warnings of every run."""
    dims = [load.dims for load in run.placement.whole]
    if max(dims) == 0 or sum(dims) == max(dims) * len(dims):
        return run.notes
    return (
        *run.notes,
        f"all-to-alls have the size of the NPU with most pooled elements, {max(dims)}; the mean is "
        f"{sum(dims) / len(dims):.1f}",
    )
