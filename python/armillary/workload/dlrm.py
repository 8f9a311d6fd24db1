"""Recommendation models: the training flows of the HOTI 2020 paper's Fig. 3 and of Neo.

Not here: what the model consists of (`model/dlrm.py`), where its tables lie (`model/sharding.py`), the presets
(`models/dlrm-*.yml`).

Model, one iteration on one NPU (MLPs data-parallel, tables shared out):

    lengths, indices     all-to-all (flow `neo`; when pipelined, beside the top MLP of the iteration before)
    embedding.forward    one fused kernel, then all-to-all and reduce-scatter of pooled rows, beside the bottom MLP
    interaction, top     forward, then backward; the weight gradients of each layer all-reduced beside what follows
    interaction          backward, then all-to-all and all-gather of the pooled rows' gradients, beside the bottom MLP
    embedding.weight_gradient   one fused kernel: gradient and optimizer, after that exchange

The next forward pass of a layer waits for its all-reduce, the next lookup for the update. Fused
kernels are bound by memory:

    forward  = lookups x (dim x embedding_width + index) + pooled x forward_width
    backward = pooled x backward_width + lookups x (2 x dim x embedding_width + index) + 2 x state

Sources: Rashidi et al., HOTI 2020, section III-A and Fig. 3; Mudigere et al., Neo and ZionEX, ISCA
2022, sections 4, 5.1, 7.1 and Eq. 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ..errors import InputError, Problem
from ..model.dlrm import FLOWS, Dense, Dlrm, parse
from ..model.fields import LARGEST, check_counts
from ..model.files import Model, load_model
from ..model.sharding import OPTIMIZERS, Load, Optimizer, Placement, Request, Scheme, place
from .program import Program
from .summary import Memory, RankClass, Summary
from .workload import Workload

Flow = Literal["hoti", "neo"]
"""Training flows: inputs where they are needed, or distributed by all-to-all."""

DenseOptimizer = Literal["sgd", "momentum", "adagrad", "adam"]

Bottom = Literal["shared", "first"]
"""Where the bottom MLP runs: data-parallel on every NPU, or for the whole batch on the first, which
has no tables."""

BOTTOMS = get_args(Bottom)


MOST_SAMPLES = 2**36
"""Samples of the largest batch over all NPUs."""

EVERYBODY = ("inputs", "pooled", "copies")
"""Groups of all ranks besides the MLPs' own: ranks with other shards interleave their collectives
differently."""

DENSE_OPTIMIZERS = {"sgd": 0, "momentum": 4, "adagrad": 4, "adam": 8}
"""Optimizer of the MLPs -> bytes of state for each parameter."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Everything about a run that all NPUs share. Batches are samples, widths bytes."""

    model: Dlrm
    placement: Placement
    npus: int
    npus_per_node: int
    local_batch: int
    passes: int
    distributed: bool
    pipelined: bool
    width: int
    gradient_width: int
    embedding_width: int
    forward_width: int
    backward_width: int
    index_width: int
    length_width: int
    optimizer: str
    dense_optimizer: str
    elementwise: bool
    bottom: str

    @property
    def widest(self) -> int:
        """Elements of a sample that the NPU with the most sends in an all-to-all of pooled rows."""
        bottom = self.model.bottom[-1].outputs if self.bottom == "first" else 0
        return max(self.placement.widest, bottom)

    @property
    def batch(self) -> int:
        """Samples of an iteration over all NPUs."""
        return self.local_batch * self.npus


def dlrm(
    model: str | Model = "dlrm-hoti",
    *,
    dp: int,
    local_batch: int | None = None,
    global_batch: int | None = None,
    passes: int = 1,
    flow: Flow | None = None,
    pipelined: bool = True,
    sharding: Scheme = "auto",
    column_shards: int | None = None,
    npus_per_node: int = 8,
    capacity: int | None = None,
    width: int | None = None,
    gradient_width: int | None = None,
    embedding_width: int | None = None,
    forward_width: int | None = None,
    backward_width: int | None = None,
    index_width: int = 8,
    length_width: int = 4,
    optimizer: Optimizer = "rowwise_adagrad",
    dense_optimizer: DenseOptimizer = "sgd",
    elementwise: bool = False,
    bottom: Bottom = "shared",
) -> Workload:
    """`passes` iterations of a recommendation model on `dp` NPUs.

    The batch is `local_batch` samples an NPU or `global_batch` over all; without either, the
    model's own. `flow` is `hoti` (inputs are where they are needed) or `neo` (lengths and indices
    are distributed, `pipelined` beside the top MLP of the iteration before). `sharding` is `table`,
    `column` (in `column_shards`, or the fewest that give every NPU one), `row`, `table_row` (in
    nodes of `npus_per_node`), `data` or `auto`; `capacity` bounds the bytes of tables on an NPU.
    Widths are bytes of an element: `width` of dense weights and activations, `gradient_width` of
    all-reduced gradients, `embedding_width` of tables, `forward_width` and `backward_width` of
    pooled rows and their gradients on the wire (quantised all-to-all), `index_width` and
    `length_width` of inputs; those not given are the model's, and `width` for pooled rows.
    `optimizer` updates the tables (`rowwise_adagrad`, `adagrad`, `sgd`), `dense_optimizer` the
    MLPs. With `elementwise` activations, gathering features and the update of the MLPs take time,
    without it they do not. `bottom` is `shared` (the bottom MLP is data-parallel) or `first` (the
    first NPU, without tables, does it for the whole batch, and sends its output in the all-to-all).
    Raises `InputError` listing every problem, with the nearest values that work."""
    found = parse(load_model(model))
    width = found.width if width is None else width
    widths = {
        "width": width,
        "gradient_width": found.gradient_width if gradient_width is None else gradient_width,
        "embedding_width": found.embedding_width if embedding_width is None else embedding_width,
        "forward_width": width if forward_width is None else forward_width,
        "backward_width": width if backward_width is None else backward_width,
        "index_width": index_width,
        "length_width": length_width,
    }
    problems = _check(
        {"dp": dp, "passes": passes, **widths},
        {"flow": flow or found.flow, "dense_optimizer": dense_optimizer, "bottom": bottom},
    )
    if bottom == "first":
        problems += _check_first(dp, sharding)
    samples = _samples(found, dp, local_batch, global_batch, problems)
    if samples * dp > MOST_SAMPLES:
        problems.append(
            Problem(
                "",
                "local_batch",
                f"{samples * dp} samples over all are too many",
                f"{MOST_SAMPLES}",
            )
        )
    if problems:
        raise InputError(problems)
    wanted = {
        name: widths[name]
        for name in ("embedding_width", "gradient_width", "forward_width", "backward_width")
    }
    asked = Request(
        sharding,
        dp - 1 if bottom == "first" else dp,
        samples,
        npus_per_node,
        column_shards,
        optimizer=optimizer,
        capacity=capacity,
        **wanted,
    )
    placement = place(found.tables, asked)
    if bottom == "first":
        placement = _beside_first(placement)
    run = _Run(
        found,
        placement,
        dp,
        npus_per_node,
        samples,
        passes,
        (flow or found.flow) == "neo",
        pipelined,
        optimizer=optimizer,
        dense_optimizer=dense_optimizer,
        elementwise=elementwise,
        bottom=bottom,
        **widths,
    )
    return _workload(run)


def _samples(
    model: Dlrm,
    npus: int,
    local_batch: int | None,
    global_batch: int | None,
    problems: list[Problem],
) -> int:
    """Samples of an iteration on one NPU."""
    if local_batch is not None and global_batch is not None:
        problems.append(
            Problem("", "global_batch", "given together with local_batch", "one of them")
        )
    if global_batch is None:
        samples = model.local_batch if local_batch is None else local_batch
        problems += check_counts({"local_batch": samples}, local_batch=LARGEST // 2)
        return samples
    if npus >= 1 and (global_batch < npus or global_batch % npus):
        below = global_batch // npus * npus
        near = ", ".join(str(each) for each in (below, below + npus) if each)
        message = f"{global_batch} samples do not divide evenly over {npus} NPUs"
        problems.append(Problem("", "global_batch", message, near))
    problems += check_counts({"global_batch": global_batch}, global_batch=LARGEST // 2)
    return global_batch // max(npus, 1)


def _check(counts: Mapping[str, int], words: Mapping[str, str]) -> list[Problem]:
    problems = check_counts(counts)
    allowed: dict[str, Sequence[str]] = {
        "flow": FLOWS,
        "dense_optimizer": tuple(DENSE_OPTIMIZERS),
        "bottom": BOTTOMS,
    }
    for key, value in words.items():
        if value not in allowed[key]:
            problems.append(Problem("", key, f"{value!r} is unknown", ", ".join(allowed[key])))
    return problems


def _check_first(npus: int, sharding: str) -> list[Problem]:
    problems = []
    if npus < 2:
        problems.append(
            Problem("", "bottom", f"{npus} NPUs leave none for the tables", "shared, or dp from 2")
        )
    if sharding not in ("table", "column"):
        message = f"sharding {sharding} would put tables beside the bottom MLP"
        problems.append(Problem("", "bottom", message, "shared, or sharding table or column"))
    return problems


def _beside_first(placement: Placement) -> Placement:
    """The placement with an NPU without tables in front: the only one, or it could not be told from
    the others."""
    if Load() in placement.whole:
        shards = sum(load != Load() for load in placement.whole)
        message = (
            f"{len(placement.whole)} NPUs beside the first one share {shards} shards of tables"
        )
        raise InputError(
            [
                Problem(
                    "", "bottom", message, f"shared, or dp up to {shards + 1}, or sharding column"
                )
            ]
        )
    return replace(placement, whole=(Load(), *placement.whole))


def _workload(run: _Run) -> Workload:
    """Ranks with equal loads share a program; with tables shared out to nodes, those of a node
    do."""
    name, each, kinds = run.model.name, run.npus_per_node, run.placement.kinds
    programs = [_program(run, kind.whole, kind.node) for kind in kinds]
    summary = _summary(run, programs)
    if run.placement.node:
        axes = [("local", each), ("node", run.npus // each)]
        along = {
            **{group: ["local", "node"] for group in EVERYBODY},
            "node": ["local"],
            "rail": ["node"],
        }
        return Workload.mesh(name, axes, along, ["node"], programs, summary)
    number = {kind.whole: index for index, kind in enumerate(kinds)}
    groups = {group: range(run.npus) for group in EVERYBODY}
    return Workload.listed(
        name, programs, [number[load] for load in run.placement.whole], groups, summary
    )


def _program(run: _Run, whole: Load, node: Load) -> Program:
    """What an NPU with these shards does."""
    flow = _Flow(run, whole, node)
    for _ in range(run.passes):
        flow.iteration()
        flow.program.hold(flow.at[0], frees=_activations(run, whole, node))
    return flow.program


class _Flow:
    """One NPU's program under construction: the nodes the next iteration waits for."""

    def __init__(self, run: _Run, whole: Load, node: Load) -> None:
        self.run, self.whole, self.node = run, whole, node
        self.program = Program()
        self.bottoms = [] if run.bottom == "first" and whole != Load() else run.model.bottom
        """The layers of the bottom MLP that run here."""
        self.alone = run.bottom == "first"
        self.updated: dict[str, list[int]] = {}
        self.inputs_after: list[int] = []
        self.at: list[int] = []

    def iteration(self) -> None:
        """Forward and backward pass of one batch."""
        run = self.run
        inputs = self._inputs()
        looked = self._lookup(inputs)
        pooled = [] if self.alone else self._pool(looked)
        for layer in self.bottoms:
            self._forward(layer)
        self._interact(self._pool(self.at) if self.alone else pooled)
        for layer in run.model.top:
            self._forward(layer)
        for layer in reversed(run.model.top):
            self._backward(layer, first=False)
        self._interact_backward()
        arrived = self._gradients()
        self._update(arrived)
        self.at = arrived if self.alone else self.at
        for layer in reversed(self.bottoms):
            self._backward(layer, first=layer is run.model.bottom[0])
        self.inputs_after = (
            self.inputs_after if run.pipelined else [*self.at, *self.updated["embedding"]]
        )

    def _collective(
        self, name: str, deps: Sequence[int], kind: str, amount: int, group: str = ""
    ) -> list[int]:
        return (
            [self.program.collective(f"{name}.{kind}", deps, kind, amount, group)] if amount else []
        )

    def _embedding(self, name: str, deps: Sequence[int], operations: int, moved: int) -> int:
        return self.program.compute(
            name, deps, operations=operations, bytes=moved, kernel="embedding"
        )

    def _inputs(self) -> list[int]:
        """The input all-to-alls of this batch: lengths first, for they tell how many indices there
        are."""
        run, deps = self.run, self.inputs_after
        if not run.distributed:
            return []
        lengths = run.local_batch * run.placement.lengths * run.length_width
        indices = run.local_batch * run.placement.indices * run.index_width
        deps = self._collective("lengths.forward", deps, "all_to_all", lengths, "inputs") or deps
        return self._collective("indices.forward", deps, "all_to_all", indices, "inputs") or deps

    def _lookup(self, inputs: Sequence[int]) -> list[int]:
        """The fused lookup."""
        run = self.run
        lookups, elements, pooled = _traffic(run, self.whole, self.node)
        amount = (
            lookups * run.index_width + elements * run.embedding_width + pooled * run.forward_width
        )
        deps = [*inputs, *self.updated.get("embedding", []), *self.at]
        done = [self._embedding("embedding.forward", sorted(set(deps)), elements, amount)]
        # Activations and buffers are there from the lookup to the end of the backward pass.
        self.program.hold(done[0], allocates=_activations(run, self.whole, self.node))
        self.at = done
        return done

    def _pool(self, done: Sequence[int]) -> list[int]:
        """The exchange of pooled rows; the nodes after which they are here."""
        run, placement = self.run, self.run.placement
        name, width = "embedding.forward", run.forward_width
        arrived = self._collective(
            name, done, "all_to_all", run.batch * run.widest * width, "pooled"
        )
        arrived += self._collective(
            name, done, "reduce_scatter", run.batch * placement.row.dims * width, "pooled"
        )
        if placement.node:
            wide = run.batch * placement.widest_node * width
            inside = self._collective(f"{name}.node", done, "reduce_scatter", wide, "node")
            arrived += self._collective(
                f"{name}.rail", inside, "all_to_all", wide // run.npus_per_node, "rail"
            )
        return arrived

    def _forward(self, layer: Dense) -> None:
        with self.program.layer(layer.name):
            self._gemm(
                layer, "forward", (layer.outputs, layer.inputs), self.updated.get(layer.name, [])
            )
            self._touch(
                f"{layer.name}.forward",
                _moved(self.run, layer)[0] * self._samples(layer) * layer.outputs,
            )

    def _samples(self, layer: Dense) -> int:
        """Samples that a layer sees here."""
        return self.run.batch if self.alone and layer in self.bottoms else self.run.local_batch

    def _touch(self, name: str, elements: int) -> None:
        """An elementwise kernel that moves so many elements, where those count."""
        if self.run.elementwise:
            moved = elements * self.run.width
            name = f"{name}.elementwise"
            self.at = [
                self.program.compute(name, self.at, operations=0, bytes=moved, kernel="elementwise")
            ]

    def _optimize(self, layer: Dense, deps: list[int]) -> list[int]:
        """The update of a layer: weights and state of 4 bytes read and written, the gradient
        read."""
        if not self.run.elementwise:
            return deps
        state, count = DENSE_OPTIMIZERS[self.run.dense_optimizer], layer.parameters
        moved = count * (8 + 2 * state + self.run.gradient_width)
        name = f"{layer.name}.weight_gradient.optimizer"
        after = deps or self.at
        return [
            self.program.compute(name, after, operations=2 * count, bytes=moved, kernel="optimizer")
        ]

    def _gemm(
        self, layer: Dense, step: str, sides: tuple[int, int], waits: Sequence[int] = ()
    ) -> None:
        n, k = sides
        batch, name = self._samples(layer), f"{layer.name}.{step}"
        m, n, k = (k, n, batch) if step == "weight_gradient" else (batch, n, k)
        self.at = [self.program.gemm(name, [*self.at, *waits], m=m, n=n, k=k, width=self.run.width)]

    def _backward(self, layer: Dense, first: bool) -> None:
        """Weight gradient and its all-reduce, then the input gradient; the first layer needs
        none."""
        with self.program.layer(layer.name):
            self._touch(
                f"{layer.name}.weight_gradient",
                _moved(self.run, layer)[1] * self._samples(layer) * layer.outputs,
            )
            self._gemm(layer, "weight_gradient", (layer.outputs, layer.inputs))
            mine = self.alone and layer in self.bottoms
            amount = 0 if mine else layer.parameters * self.run.gradient_width
            reduced = self._collective(
                f"{layer.name}.weight_gradient", self.at, "all_reduce", amount
            )
            self.updated[layer.name] = self._optimize(layer, reduced)
            if not first:
                self._gemm(layer, "input_gradient", (layer.inputs, layer.outputs))

    def _interact(self, pooled: Sequence[int]) -> None:
        """Starts when pooled rows and the bottom MLP's output are here; then the next batch's
        inputs may travel."""
        shape, samples = self.run.model.interaction, self.run.local_batch
        self.at = [*self.at, *pooled]
        self._touch("interaction.forward", 2 * samples * shape.inputs)
        self._meet("interaction.forward", times=1)
        self.inputs_after = self.at
        for layer in shape.layers:
            self._forward(layer)

    def _interact_backward(self) -> None:
        shape, samples = self.run.model.interaction, self.run.local_batch
        for layer in reversed(shape.layers):
            self._backward(layer, first=False)
        self._meet("interaction.input_gradient", times=2)
        self._touch("interaction.input_gradient", 2 * samples * shape.inputs)

    def _meet(self, name: str, times: int) -> None:
        """The interaction itself: dot products, `times` as many backward, or moving its inputs to
        its outputs."""
        run, shape = self.run, self.run.model.interaction
        deps, dots = self.at, shape.gemm(run.local_batch)
        if dots is not None:
            m, n, k, batch = dots.m, dots.n, dots.k, dots.batch * times
            self.at = [self.program.gemm(name, deps, m=m, n=n, k=k, batch=batch, width=run.width)]
            return
        moved = run.local_batch * (shape.inputs + shape.outputs) * run.width
        self.at = [
            self.program.compute(name, deps, operations=0, bytes=moved, kernel="elementwise")
        ]

    def _gradients(self) -> list[int]:
        """The exchange of the pooled rows' gradients, the way back of `_lookup`."""
        run, placement = self.run, self.run.placement
        name, width = "embedding.input_gradient", run.backward_width
        arrived = self._collective(
            name, self.at, "all_to_all", run.batch * run.widest * width, "pooled"
        )
        arrived += self._collective(
            name, self.at, "all_gather", run.local_batch * placement.row.dims * width, "pooled"
        )
        if placement.node:
            wide = run.batch // run.npus_per_node * placement.widest_node * width
            across = self._collective(f"{name}.rail", self.at, "all_to_all", wide, "rail")
            arrived += self._collective(f"{name}.node", across, "all_gather", wide, "node")
        return arrived

    def _update(self, arrived: Sequence[int]) -> None:
        """The fused backward and optimizer kernel; copied tables are all-reduced after it."""
        run = self.run
        lookups, elements, pooled = _traffic(run, self.whole, self.node)
        state = (
            lookups * 4
            if run.optimizer == "rowwise_adagrad"
            else elements * OPTIMIZERS[run.optimizer]
        )
        moved = (
            pooled * run.backward_width
            + lookups * run.index_width
            + 2 * elements * run.embedding_width
        )
        name, deps = "embedding.weight_gradient", [*arrived, *([] if arrived else self.at)]
        node = self._embedding(name, deps, 2 * elements, moved + 2 * state)
        copies = run.placement.data.parameters * run.gradient_width
        self.updated["embedding"] = self._collective(
            name, [node], "all_reduce", copies, "copies"
        ) or [node]


def _moved(run: _Run, layer: Dense) -> tuple[int, int]:
    """Tensors of a layer's output that elementwise kernels move, forward and backward.

    An activation is read and written; backward the gradient and what was written are read, the new
    gradient written. A cross layer `x0 * y + x` reads three and writes one; its gradients by `x0`
    (added up) and `y` read four and write two. In front of it nothing is activated."""
    if layer not in run.model.interaction.layers:
        return 2, 3
    return (4, 6) if layer.bias else (0, 0)


def _dense(run: _Run, whole: Load) -> tuple[tuple[Dense, int], ...]:
    """The dense layers on an NPU with these shards, and the samples each sees."""
    alone = run.bottom == "first"
    samples = run.batch if alone else run.local_batch
    here = () if alone and whole != Load() else run.model.bottom
    rest = run.model.interaction.layers + run.model.top
    return tuple((layer, samples) for layer in here) + tuple(
        (layer, run.local_batch) for layer in rest
    )


def _traffic(run: _Run, whole: Load, node: Load) -> tuple[int, int, int]:
    """Lookups, elements read and pooled elements written by an NPU with these shards in an
    iteration."""
    placement, batch = run.placement, run.batch
    parts = [
        (whole, batch, 1),
        (placement.row, batch, run.npus),
        (node, batch, run.npus_per_node),
        (placement.data, run.local_batch, 1),
    ]
    lookups = sum(-(-samples * load.lookups // ways) for load, samples, ways in parts)
    elements = sum(-(-samples * load.elements // ways) for load, samples, ways in parts)
    return lookups, elements, sum(samples * load.dims for load, samples, _ in parts)


def _summary(run: _Run, programs: Sequence[Program]) -> Summary:
    kinds, classes = run.placement.kinds, []
    for index, (kind, program) in enumerate(zip(kinds, programs, strict=True)):
        volumes = tuple(
            replace(volume, count=volume.count // run.passes, bytes=volume.bytes // run.passes)
            for volume in program.volumes
        )
        name = (
            "all"
            if len(kinds) == 1
            else f"node {index}"
            if run.placement.node
            else f"shards {index}"
        )
        classes.append(
            RankClass(
                name,
                kind.ranks,
                program.operations // run.passes,
                volumes,
                _memory(run, kind.first),
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
        run.npus,
        parameters,
        active,
        run.batch,
        flops,
        flops,
        0.0,
        tuple(classes),
        _notes(run),
    )


def _memory(run: _Run, npu: int) -> Memory:
    """Bytes on `npu`."""
    placement = run.placement
    tables, state = placement.memory(npu, run.embedding_width, run.optimizer)
    dense = sum(layer.parameters for layer, _ in _dense(run, placement.whole[npu]))
    gradients = (dense + placement.data.parameters) * run.gradient_width
    state += dense * DENSE_OPTIMIZERS[run.dense_optimizer]
    return Memory(
        tables + dense * run.width, gradients, state, _activations(run, *placement.on(npu))
    )


def _activations(run: _Run, whole: Load, node: Load) -> int:
    """Bytes of the inputs of every dense layer, of pooled rows and of indices."""
    kept = sum(layer.inputs * samples for layer, samples in _dense(run, whole))
    kept += run.model.interaction.inputs * run.local_batch
    lookups, _, pooled = _traffic(run, whole, node)
    buffers = pooled * max(run.forward_width, run.backward_width) + lookups * run.index_width
    return kept * run.width + buffers


def _notes(run: _Run) -> tuple[str, ...]:
    tables = ", ".join(f"{count} {scheme}" for scheme, count in run.placement.schemes)
    kinds, sizes = run.placement.kinds, (run.embedding_width, run.optimizer)
    held = [sum(run.placement.memory(kind.first, *sizes)) for kind in kinds]
    whole = sum(each * kind.ranks for each, kind in zip(held, kinds, strict=True))
    notes = [
        f"tables: {tables}; bytes of tables and optimizer state on an NPU: {min(held)} to {max(held)}, {whole} over all"
    ]
    dims = [load.dims for load in run.placement.whole]
    if max(dims) > 0 and sum(dims) != max(dims) * len(dims):
        mean = sum(dims) / len(dims)
        notes.append(
            f"all-to-alls have the size of the NPU with most pooled elements, {max(dims)}; the mean is {mean:.1f}"
        )
    if max(dims) > 0 and min(dims) == 0:
        notes.append(f"{dims.count(0)} of {len(dims)} NPUs hold no whole table or column shard")
    return tuple(notes)
