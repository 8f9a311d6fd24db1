"""Program of one NPU in an iteration of a recommendation model, node by node.

`dlrm.py` describes the flow and says where it is from. Not here: where tables are
(`model/sharding.py`), the options (`dlrm_options.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ..model.dlrm import Dense, Dlrm
from ..model.messages import GRADIENT_ROW, Width
from ..model.sharding import OPTIMIZERS, NpuKind, ShardLoads, TableLoad
from ..units import PS_PER_US
from . import buckets
from .dlrm_bench import Parts
from .dlrm_options import DlrmSizes, Options
from .program import Program

DENSE_OPTIMIZERS = {"sgd": 0, "momentum": 4, "adagrad": 4, "adam": 8}
"""Optimizer of the MLPs -> bytes of state for each parameter."""


@dataclass(frozen=True, slots=True)
class DlrmRun:
    """Everything about a run that all NPUs share."""

    model: Dlrm
    options: Options
    sizes: DlrmSizes
    placement: ShardLoads
    parts: Parts | None = None
    """Measured parts of the step, if there are any."""
    notes: tuple[str, ...] = ()
    """Warnings about the model and the words that name its options."""

    @property
    def distributed(self) -> bool:
        """Whether lengths and indices are distributed by all-to-alls."""
        return (self.options.flow or self.model.flow) == "neo"

    def widest(self, wire: Width) -> int:
        """Bytes of a sample that the NPU with the most sends in an all-to-all of pooled rows."""
        alone = self.options.bottom == "first"
        bottom = wire.bytes(self.model.bottom[-1].outputs, 1) if alone else 0
        return max(bottom, *(wire.bytes(load.dims, load.shards) for load in self.placement.whole))

    def widest_node(self, wire: Width) -> int:
        """Bytes of a sample of the node with most pooled rows that are added up within it."""
        loads = self.placement.node
        return max((wire.bytes(load.dims, load.shards) for load in loads), default=0)

    def reduced(self, parameters: int) -> int:
        """Bytes of the gradients of an MLP's `parameters` in an all-reduce."""
        return self.sizes.wires.all_reduce.bytes(parameters, -(-parameters // GRADIENT_ROW))

    @property
    def batch(self) -> int:
        """Samples of an iteration over all NPUs."""
        return self.sizes.local_batch * self.options.dp


class HostWork(NamedTuple):
    """Work of hosts next to a step (`dlrm_hosts.py`)."""

    reading_ps: int = 0
    """Time until the samples of a step have arrived."""
    writing_ps: int = 0
    """Time until the part of a checkpoint has left."""
    copied: int = 0
    """Bytes of this part that an NPU copies to its host."""


class DlrmFlow:
    """One NPU's program under construction: the nodes the next iteration waits for."""

    def __init__(self, run: DlrmRun, kind: NpuKind, hosts: HostWork | None = None) -> None:
        self.hosts = hosts or HostWork()
        self.run, self.whole, self.node, self.fetched = run, kind.whole, kind.node, kind.fetched
        self.program = Program()
        self.bottoms = (
            [] if run.options.bottom == "first" and self.whole != TableLoad() else run.model.bottom
        )
        """The layers of the bottom MLP that run here."""
        self.alone = run.options.bottom == "first"
        self.updated: dict[str, list[int]] = {}
        self.inputs_after: list[int] = []
        self.copy_after: list[int] = []
        self.beside: list[int] = []
        """The last nodes of the hosts' work."""
        self.at: list[int] = []
        self.summed: list[int] = []
        """All-reduces of this iteration, where an optimizer step for all MLPs follows."""
        self.buckets = self._buckets()
        """Layers whose gradients are all-reduced together, by the last of them."""

    def iteration(self) -> None:
        """Forward and backward pass of one batch."""
        run = self.run
        if run.options.host_us:
            length = int(run.options.host_us * PS_PER_US)
            self.at = [self.program.compute("data", self.at, duration_ps=length, host=True)]
        arrived = self._beside()
        self._part("data")
        self._part("trainer")
        self._part("inputs.distribute")
        inputs = self._inputs(arrived)
        looked = self._lookup(inputs)
        pooled = [] if self.alone else self._pool(looked)
        self._wait(pooled)
        for layer in self.bottoms:
            self._forward(layer)
        self._interact(self._pool(self.at) if self.alone else pooled)
        for layer in run.model.top:
            self._forward(layer)
        self._part("loss.forward")
        for layer in reversed(run.model.top):
            self._backward(layer, first=False)
        self._interact_backward()
        self._sum("top", (*run.model.interaction.layers, *run.model.top))
        self._part("embedding.spread")
        arrived = self._gradients()
        self._update(arrived)
        self.at = arrived if self.alone else self.at
        self._wait([*arrived, *self.updated["embedding"]])
        for layer in reversed(self.bottoms):
            self._backward(layer, first=layer is run.model.bottom[0])
        self._sum("bottom", run.model.bottom)
        self._part("scores")
        self._step()
        self.inputs_after = (
            self.inputs_after if run.options.pipeline else [*self.at, *self.updated["embedding"]]
        )

    def _wait(self, exchanged: Sequence[int]) -> None:
        """Without overlap, what follows waits for an exchange and for the update after it."""
        if not self.run.options.overlap:
            self.at = sorted({*self.at, *exchanged})

    def _part(self, name: str) -> None:
        """A measured part of the step, if there is one of that name."""
        length = (self.run.parts or {}).get(name)
        if length is not None:
            self.at = [self.program.compute(name, self.at, duration_ps=length)]

    def _sum(self, name: str, layers: Sequence[Dense]) -> None:
        """The all-reduce of an MLP's gradients, where it is one for all of its layers."""
        if self.run.parts is not None:
            amount = self.run.reduced(sum(layer.parameters for layer in layers))
            name = f"{name}.weight_gradient"
            self.summed += self._collective(name, self.at, "all_reduce", amount)

    def _step(self) -> None:
        """The step of the MLPs' optimizer, where it is one for all layers."""
        if self.run.parts is not None:
            self.at, self.summed = [*self.at, *self.summed], []
            self._part("optimizer")

    def _collective(
        self, name: str, deps: Sequence[int], kind: str, amount: int, group: str = ""
    ) -> list[int]:
        return (
            [self.program.collective(f"{name}.{kind}", deps, kind, amount, group)] if amount else []
        )

    def _tables(
        self, name: str, deps: Sequence[int], work: TableWork, update: bool = False
    ) -> list[int]:
        """The last node of work on all tables: one kernel, or for every table one with a part of
        it, two in an update."""
        count = 1
        if not self.run.options.fused:
            copied = self.run.placement.data.shards if update else 0
            count = max(1, (1 + update) * shards(self.run, self.whole, self.node) - copied)
        at = list(deps)
        for index in range(count):
            done, part, rows = (
                (index + 1) * total // count - index * total // count for total in work
            )
            at = [
                self.program.lookup(name, at, operations=done, bytes=part, rows=rows, update=update)
            ]
        return at

    def _fetch(self, inputs: Sequence[int]) -> list[int]:
        """Rows from the host's memory and from disk, as soon as it is known which ones."""
        return [*inputs, *self._move("embedding.fetch", inputs, store=False)]

    def _move(self, name: str, deps: Sequence[int], store: bool) -> list[int]:
        """Accesses to the slower memories that rows come from or go to."""
        return [
            self.program.memory(f"{name}{suffix}", deps, moved, store=store, reach=reach)
            for reach, suffix, moved in (
                ("host", "", self.fetched.host),
                ("disk", ".disk", self.fetched.disk),
            )
            if moved
        ]

    def _beside(self) -> list[int]:
        """The hosts' work next to this step. Returns what the inputs of this batch wait for: what
        was done next to the step before, and without a pipeline their own arrival."""
        work, before = self.hosts, self.beside
        after, arrived = [*before, *self.inputs_after], list[int]()
        if work.reading_ps:
            length = work.reading_ps
            arrived.append(
                self.program.compute("inputs.arrive", after, duration_ps=length, host=True)
            )
        self.beside = [*arrived, *self._checkpoint(after, arrived)]
        return before if self.run.options.pipeline else [*before, *arrived]

    def _checkpoint(self, after: Sequence[int], arrived: Sequence[int]) -> Iterator[int]:
        """The part of a checkpoint that leaves next to this step. A card sends while it receives,
        so only what takes longer than the samples follows them."""
        work = self.hosts
        longer = work.writing_ps - work.reading_ps
        if longer > 0:
            name, deps = "checkpoint.store", arrived or after
            yield self.program.compute(name, deps, duration_ps=longer, host=True)
        if work.copied:
            name, moved = "checkpoint.copy", work.copied
            yield self.program.memory(name, after, moved, store=True, reach="host")

    def _inputs(self, arrived: Sequence[int]) -> list[int]:
        """The input all-to-alls of this batch: lengths first, since they give the number of
        indices."""
        run, deps = self.run, [*self.inputs_after, *arrived]
        if run.options.host_inputs:
            after = [*self.copy_after, *arrived] if run.options.pipeline else deps
            copied = self.program.memory("inputs.copy", after, input_bytes(run), reach="host")
            deps = [*deps, copied]
        if not run.distributed:
            return deps if run.options.host_inputs or arrived else []
        lengths = run.sizes.local_batch * run.placement.lengths * run.sizes.length
        indices = run.sizes.local_batch * run.placement.indices * run.sizes.index
        deps = self._collective("lengths.forward", deps, "all_to_all", lengths, "inputs") or deps
        return self._collective("indices.forward", deps, "all_to_all", indices, "inputs") or deps

    def _lookup(self, inputs: Sequence[int]) -> list[int]:
        """The fused lookup."""
        run = self.run
        work = lookup(run, self.whole, self.node)
        inputs = self._fetch(inputs)
        deps = [*inputs, *self.updated.get("embedding", []), *self.at]
        done = self._tables("embedding.forward", sorted(set(deps)), work)
        self.copy_after = done
        # Activations and buffers are there from the lookup to the end of the backward pass.
        self.program.hold(done[0], allocates=activations(run, self.whole, self.node))
        self.at = done
        return done

    def _pool(self, done: Sequence[int]) -> list[int]:
        """The exchange of pooled rows; the nodes after which they are here."""
        run, placement = self.run, self.run.placement
        name, wires, row = "embedding.forward", run.sizes.wires, placement.row
        amount = run.batch * run.widest(wires.forward)
        arrived = self._collective(name, done, "all_to_all", amount, "pooled")
        amount = run.batch * wires.reduce_scatter.bytes(row.dims, row.shards)
        arrived += self._collective(name, done, "reduce_scatter", amount, "pooled")
        if placement.node:
            wide = run.batch * run.widest_node(wires.reduce_scatter)
            inside = self._collective(f"{name}.node", done, "reduce_scatter", wide, "node")
            across = run.batch * run.widest_node(wires.forward) // placement.npus_per_node
            arrived += self._collective(f"{name}.rail", inside, "all_to_all", across, "rail")
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
        return (
            self.run.batch if self.alone and layer in self.bottoms else self.run.sizes.local_batch
        )

    def _touch(self, name: str, elements: int) -> None:
        """An elementwise kernel that moves `elements`, where those count."""
        if self.run.options.elementwise:
            moved = elements * self.run.sizes.dense
            name = f"{name}.elementwise"
            self.at = [
                self.program.compute(name, self.at, operations=0, bytes=moved, kernel="elementwise")
            ]

    def _optimize(self, layer: Dense, deps: list[int]) -> list[int]:
        """The update of a layer: weights and state of 4 bytes read and written, the gradient
        read."""
        if not self.run.options.elementwise:
            return deps
        state, count = DENSE_OPTIMIZERS[self.run.options.dense_optimizer], layer.parameters
        moved = count * (8 + 2 * state + self.run.sizes.gradient)
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
        self.at = [
            self.program.gemm(name, [*self.at, *waits], m=m, n=n, k=k, width=self.run.sizes.dense)
        ]

    def _backward(self, layer: Dense, first: bool) -> None:
        """Weight gradient and its all-reduce, then the input gradient; the first layer needs
        none."""
        with self.program.layer(layer.name):
            self._touch(
                f"{layer.name}.weight_gradient",
                _moved(self.run, layer)[1] * self._samples(layer) * layer.outputs,
            )
            self._gemm(layer, "weight_gradient", (layer.outputs, layer.inputs))
            if self.run.parts is None:
                self._reduce(layer)
            if not first:
                self._gemm(layer, "input_gradient", (layer.inputs, layer.outputs))

    def _buckets(self) -> dict[str, list[Dense]]:
        """The layers in the order of their gradients. What the first NPU does alone is a bucket of
        its own, as nothing is all-reduced."""
        run = self.run
        shared = (*([] if self.alone else self.bottoms), *run.model.interaction.layers)
        shared = (*shared, *run.model.top)
        found = buckets.fill(shared[::-1], self._reduced, run.options.bucket_mb)
        mine = [[layer] for layer in self.bottoms if self.alone]
        return {held[-1].name: held for held in (*found, *mine)}

    def _reduced(self, layers: Sequence[Dense]) -> int:
        """Bytes of the gradients of layers in one all-reduce."""
        return self.run.reduced(sum(layer.parameters for layer in layers))

    def _reduce(self, last: Dense) -> None:
        """The all-reduce of a bucket after its last gradient, and the update of its layers."""
        held = self.buckets.get(last.name, [])
        mine = self.alone and last in self.bottoms
        amount = 0 if mine or not held else self._reduced(held)
        summed = self._all_reduced(f"{last.name}.weight_gradient", amount)
        for layer in held:
            with self.program.layer(layer.name):
                self.updated[layer.name] = self._optimize(layer, summed)
        self._wait([node for layer in held for node in self.updated[layer.name]])

    def _all_reduced(self, name: str, amount: int) -> list[int]:
        """An all-reduce, in pieces where it is larger than a bucket may be."""
        return [
            node
            for each, part in buckets.pieces(name, amount, self.run.options.bucket_mb)
            for node in self._collective(each, self.at, "all_reduce", part)
        ]

    def _interact(self, pooled: Sequence[int]) -> None:
        """Starts when pooled rows and the bottom MLP's output are here; then the next batch's
        inputs may travel."""
        run = self.run
        shape, samples = run.model.interaction, run.sizes.local_batch
        self.at = [*self.at, *pooled]
        self._part("embedding.collect")
        if "interaction.forward" in (run.parts or {}):
            self._part("interaction.forward")
        else:
            self._touch("interaction.forward", 2 * samples * shape.inputs)
            self._meet("interaction.forward", times=1)
        self.inputs_after = self.at
        for layer in shape.layers:
            self._forward(layer)

    def _interact_backward(self) -> None:
        shape, samples = self.run.model.interaction, self.run.sizes.local_batch
        for layer in reversed(shape.layers):
            self._backward(layer, first=False)
        if "interaction.input_gradient" in (self.run.parts or {}):
            self._part("interaction.input_gradient")
            return
        self._meet("interaction.input_gradient", times=2)
        self._touch("interaction.input_gradient", 2 * samples * shape.inputs)

    def _meet(self, name: str, times: int) -> None:
        """The interaction itself: dot products, `times` the number backward, or moving its inputs
        to its outputs."""
        run, shape = self.run, self.run.model.interaction
        deps, dots = self.at, shape.gemm(run.sizes.local_batch)
        if dots is not None:
            m, n, k, batch = dots.m, dots.n, dots.k, dots.batch * times
            self.at = [
                self.program.gemm(name, deps, m=m, n=n, k=k, batch=batch, width=run.sizes.dense)
            ]
            return
        moved = run.sizes.local_batch * (shape.inputs + shape.outputs) * run.sizes.dense
        self.at = [
            self.program.compute(name, deps, operations=0, bytes=moved, kernel="elementwise")
        ]

    def _gradients(self) -> list[int]:
        """The exchange of the pooled rows' gradients, the way back of `_lookup`."""
        run, placement = self.run, self.run.placement
        name, wire, row = "embedding.input_gradient", run.sizes.wires.backward, placement.row
        amount = run.batch * run.widest(wire)
        arrived = self._collective(name, self.at, "all_to_all", amount, "pooled")
        amount = run.sizes.local_batch * wire.bytes(row.dims, row.shards)
        arrived += self._collective(name, self.at, "all_gather", amount, "pooled")
        if placement.node:
            wide = run.batch // run.placement.npus_per_node * run.widest_node(wire)
            across = self._collective(f"{name}.rail", self.at, "all_to_all", wide, "rail")
            arrived += self._collective(f"{name}.node", across, "all_gather", wide, "node")
        return arrived

    def _update(self, arrived: Sequence[int]) -> None:
        """The fused backward and optimizer kernel. Gradients of copied tables are added up over all
        NPUs after it, and then each NPU updates its copies."""
        run = self.run
        work = update(run, self.whole, self.node)
        name, deps = "embedding.weight_gradient", [*arrived, *([] if arrived else self.at)]
        done = self._tables(name, deps, work, update=True)
        # Every row in the cache was changed, so a row that leaves it is written back.
        self._move("embedding.write_back", done, store=True)
        copied = run.placement.data
        amount = copied.parameters * run.sizes.gradient
        summed = self._collective(name, done, "all_reduce", amount, "copies")
        self.updated["embedding"] = self._update_copies(summed or done) if copied.shards else done

    def _update_copies(self, deps: Sequence[int]) -> list[int]:
        """The optimizer of copied tables: one kernel, or one for every table."""
        run, copied = self.run, self.run.placement.data
        work = step_of(copied, run.sizes, run.options.optimizer)
        count = 1 if run.options.fused else copied.shards
        at = list(deps)
        for index in range(count):
            done, moved = ((index + 1) * all_ // count - index * all_ // count for all_ in work)
            name = "embedding.weight_gradient.optimizer"
            at = [self.program.compute(name, at, operations=done, bytes=moved, kernel="optimizer")]
        return at


def _moved(run: DlrmRun, layer: Dense) -> tuple[int, int]:
    """Tensors of a layer's output that elementwise kernels move, forward and backward.

    An activation is read and written; backward the gradient and what was written are read, the new
    gradient written. A cross layer `x0 * y + x` reads three and writes one; its gradients by `x0`
    (added up) and `y` read four and write two. In front of it nothing is activated."""
    if layer not in run.model.interaction.layers:
        return 2, 3
    return (4, 6) if layer.bias else (0, 0)


def dense_layers(run: DlrmRun, whole: TableLoad) -> tuple[tuple[Dense, int], ...]:
    """The dense layers on an NPU with these shards, and the samples each sees."""
    alone = run.options.bottom == "first"
    samples = run.batch if alone else run.sizes.local_batch
    here = () if alone and whole != TableLoad() else run.model.bottom
    rest = run.model.interaction.layers + run.model.top
    return tuple((layer, samples) for layer in here) + tuple(
        (layer, run.sizes.local_batch) for layer in rest
    )


def traffic(run: DlrmRun, whole: TableLoad, node: TableLoad) -> tuple[int, int, int]:
    """Lookups, elements read and pooled elements written by an NPU with these shards in an
    iteration."""
    cut, copied = _cut(run, whole, node), _copied(run)
    return cut[0] + copied[0], cut[1] + copied[1], cut[2] + copied[2]


def _cut(run: DlrmRun, whole: TableLoad, node: TableLoad) -> tuple[int, int, int]:
    """The same of tables that are not copied."""
    placement, batch = run.placement, run.batch
    parts = [(whole, 1), (placement.row, run.options.dp), (node, placement.npus_per_node)]
    lookups = sum(-(-batch * load.lookups // ways) for load, ways in parts)
    elements = sum(-(-batch * load.elements // ways) for load, ways in parts)
    return lookups, elements, sum(batch * load.dims for load, _ in parts)


def _copied(run: DlrmRun) -> tuple[int, int, int]:
    """The same of copied tables."""
    load, samples = run.placement.data, run.sizes.local_batch
    return samples * load.lookups, samples * load.elements, samples * load.dims


class TableWork(NamedTuple):
    """Work of a kernel on tables."""

    operations: int
    bytes: int
    rows: int
    """Rows that are read, and rows that are written."""


class ElementBytes(Protocol):
    """Bytes of an element."""

    @property
    def embedding(self) -> int:
        """Bytes of an element of a table."""
        ...

    @property
    def gradient(self) -> int:
        """Bytes of an element of a row's gradient."""
        ...

    @property
    def forward(self) -> int:
        """Bytes of an element of a pooled row."""
        ...

    @property
    def backward(self) -> int:
        """Bytes of an element of a pooled row's gradient."""
        ...

    @property
    def index(self) -> int:
        """Bytes of an index."""
        ...


def lookup(run: DlrmRun, whole: TableLoad, node: TableLoad) -> TableWork:
    """The lookup on an NPU with these shards."""
    return lookup_of(*traffic(run, whole, node), run.sizes)


def update(run: DlrmRun, whole: TableLoad, node: TableLoad) -> TableWork:
    """The tables' backward pass with their optimizer on an NPU with these shards; of copied tables
    without."""
    cut = _cut(run, whole, node)
    cut_work = update_of(*cut, run.sizes, run.options.optimizer, run.options.fused)
    copied = gradient_of(*_copied(run), run.sizes)
    return TableWork(*(one + other for one, other in zip(cut_work, copied, strict=True)))


def lookup_of(lookups: int, elements: int, pooled: int, sizes: ElementBytes) -> TableWork:
    """The lookup of rows with these elements, and the pooled elements that it makes."""
    moved = lookups * sizes.index + elements * sizes.embedding + pooled * sizes.forward
    return TableWork(elements, moved, lookups)


def update_of(
    lookups: int, elements: int, pooled: int, sizes: ElementBytes, optimizer: str, fused: bool
) -> TableWork:
    """The update of these rows. Where it is not fused with the backward pass, gradients of rows
    are written and read."""
    state = lookups * 4 if optimizer == "rowwise_adagrad" else elements * OPTIMIZERS[optimizer]
    moved = pooled * sizes.backward + lookups * sizes.index + 2 * elements * sizes.embedding
    if not fused:
        state += elements * sizes.gradient
    return TableWork(2 * elements, moved + 2 * state, 2 * lookups)


def gradient_of(lookups: int, elements: int, pooled: int, sizes: ElementBytes) -> TableWork:
    """The backward pass of copied tables: rows of the tables' gradients are read and written."""
    moved = pooled * sizes.backward + lookups * sizes.index + 2 * elements * sizes.gradient
    return TableWork(elements, moved, 2 * lookups)


def step_of(copied: TableLoad, sizes: ElementBytes, optimizer: str) -> tuple[int, int]:
    """Operations and bytes of the optimizer's step of copied tables. It reads all gradients, and
    reads and writes all weights and states."""
    weights, state = copied.bytes(sizes.embedding, optimizer)
    moved = 2 * (weights + state) + copied.parameters * sizes.gradient
    return 2 * copied.parameters, moved


def shards(run: DlrmRun, whole: TableLoad, node: TableLoad) -> int:
    """Tables and shards of tables on an NPU."""
    return whole.shards + node.shards + run.placement.row.shards + run.placement.data.shards


def input_bytes(run: DlrmRun) -> int:
    """Bytes of the lengths, indices and dense features of an NPU's samples."""
    tables, sizes = run.model.tables, run.sizes
    sparse = len(tables) * sizes.length + sum(table.pooling for table in tables) * sizes.index
    return sizes.local_batch * (sparse + run.model.bottom[0].inputs * sizes.dense)


def activations(run: DlrmRun, whole: TableLoad, node: TableLoad) -> int:
    """Bytes of the inputs of every dense layer, of pooled rows and of indices."""
    kept = sum(layer.inputs * samples for layer, samples in dense_layers(run, whole))
    kept += run.model.interaction.inputs * run.sizes.local_batch
    lookups, _, pooled = traffic(run, whole, node)
    buffers = pooled * max(run.sizes.forward, run.sizes.backward) + lookups * run.sizes.index
    return kept * run.sizes.dense + buffers
