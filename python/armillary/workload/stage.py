"""The program of one pipeline stage.

Here: layers into chunks, passes in the schedule's order, messages between stages, reduction of gradients, gathering of
parameters, the optimizer. Not here: what a layer does (`layer.py`, `experts.py`).
Gradients: all-reduced over dp x cp (ZeRO 0), or reduce-scattered and the updated parameters all-gathered (1, 2): by
layer in the last micro-batch's backward pass, ZeRO 2 and 3 in every one. ZeRO 3 gathers each layer's parameters before
its forward and its backward pass, one layer ahead. Shards of groups of ranks (`zero_group`) are all-reduced over their
replicas after the last micro-batch; whole tensors are all-reduced, and broadcast by their owners. Collectives of one
data-parallel group follow each other, as on one stream. Sources: Li et al. 2020 (arXiv:2006.15704); Rajbhandari et al.
2020 (arXiv:1910.02054); Zhao et al. 2023 (arXiv:2304.11277); Zhang et al. 2022 (arXiv:2205.00119).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from . import zero
from .architecture import (
    Decoder,
    Tensors,
    Weights,
    embedding_weights,
    head_weights,
    layer_tensors,
    layer_weights,
    multiplied,
    norm_weights,
)
from .experts import experts
from .layer import Scripts, Setting, attention, embedding, head, join, perceptron, recomputed
from .memory import (
    embedding_activations,
    gathered,
    head_activations,
    layer_activations,
    states,
    temporary,
)
from .parallelism import Parallelism
from .program import Program
from .schedule import Pass, held, order
from .script import Ring, Script, Stream, Work
from .summary import Memory

_PIPELINE = "pipeline"
"""The layer of messages between stages, which belong to none of the model's."""


@dataclass(frozen=True)
class Unit:
    """What is gathered and reduced together: a layer, the embedding or the head, with its scripts."""

    name: str
    scripts: Scripts
    again: Script
    """Computed again before the backward pass."""
    weights: Weights
    tensors: Tensors
    activations: int
    width: int
    """Bytes of an element of a gathered parameter."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive units that a stage runs in one pass."""

    units: tuple[Unit, ...]

    @property
    def activations(self) -> int:
        """Bytes kept of a micro-batch."""
        return sum(unit.activations for unit in self.units)


def split(layers: int, pp: int, chunks: int) -> list[int]:
    """Layers of each of `pp` x `chunks` parts in model order; if need be embedding and head count as a layer each."""
    parts = pp * chunks
    if layers % parts == 0:
        return [layers // parts] * parts
    each = (layers + 2) // parts
    return [each - (part == 0) - (part == parts - 1) for part in range(parts)]


def split_by_cost(model: Decoder, parts: int) -> list[int]:
    """Layers of each part where a part ends with the layer that reaches its share of all multiplications.

    The head's count, the embedding has none; every part but the last has a layer. This is how nanotron deals blocks to
    pipeline ranks (huggingface/nanotron, `get_block_compute_costs`).
    """
    costs = [multiplied(model, layer) for layer in range(model.layers)]
    total = sum(costs) + model.hidden * model.vocabulary
    counts, done = [0] * parts, 0
    part = 0
    for layer, cost in enumerate(costs):
        counts[part] += 1
        done += cost
        left, wanting = model.layers - layer - 1, parts - part - 2
        if part < parts - 1 and (done * parts >= total * (part + 1) or left <= wanting):
            part += 1
    return counts


@dataclass
class Plan:
    """The units of every stage; equal layers share their scripts."""

    at: Setting
    stages: list[list[Chunk]] = field(init=False)

    def __post_init__(self) -> None:
        model, par = self.at.model, self.at.par
        kinds = {mixed: self._kind(mixed) for mixed in {model.has_experts(i) for i in range(model.layers)}}
        parts: list[list[Unit]] = []
        first, before = 0, [0] * par.pp
        for part, count in enumerate(self._split()):
            local = before[part % par.pp]
            layers = [(f"layer{local + i}", first + i) for i in range(count)]
            parts.append([self._layer(name, layer, kinds[model.has_experts(layer)]) for name, layer in layers])
            first, before[part % par.pp] = first + count, local + count
        parts[0].insert(0, self._embedding())
        parts[-1].append(self._head())
        self.stages = [
            [Chunk(tuple(parts[chunk * par.pp + stage])) for chunk in range(par.virtual_stages)]
            for stage in range(par.pp)
        ]

    def _split(self) -> list[int]:
        par = self.at.par
        if par.partition == "cost":
            return split_by_cost(self.at.model, par.pp * par.virtual_stages)
        return split(self.at.model.layers, par.pp, par.virtual_stages)

    def _kind(self, mixed: bool) -> tuple[Scripts, Script]:
        scripts = join(attention(self.at), experts(self.at) if mixed else perceptron(self.at, self.at.model.ffn))
        return scripts, recomputed(self.at, scripts)

    def _layer(self, name: str, layer: int, kind: tuple[Scripts, Script]) -> Unit:
        """Layer `layer` of the model, named by its place in the stage, so that equal stages have equal programs."""
        model, par = self.at.model, self.at.par
        weights = layer_weights(model, layer, par.tp, par.ep)
        tensors = layer_tensors(model, layer, par.tp, par.ep)
        width = par.bytes.gemm if par.fp8_param_gather else par.bytes.weight
        return Unit(name, *kind, weights, tensors, layer_activations(self.at, layer), width)

    def _embedding(self) -> Unit:
        count, width = embedding_weights(self.at.model, self.at.par.tp), self.at.par.bytes.weight
        kept = embedding_activations(self.at)
        return Unit("embedding", embedding(self.at), (), Weights(count), Tensors((count,)), kept, width)

    def _head(self) -> Unit:
        model, par = self.at.model, self.at.par
        shared = model.tied and par.pp == 1
        tensors = (norm_weights(model), *(() if shared else (head_weights(model, par.tp),)))
        kept, width = head_activations(self.at), par.bytes.weight
        return Unit("head", head(self.at), (), Weights(sum(tensors)), Tensors(tensors), kept, width)

    def weights(self, stage: int) -> Weights:
        """Parameters of one rank of a stage."""
        return sum((unit.weights for chunk in self.stages[stage] for unit in chunk.units), Weights())

    def pieces(self, stage: int) -> dict[str, list[zero.Piece]]:
        """By unit, what each owner of whole tensors holds."""
        units = {unit.name: unit.tensors for chunk in self.stages[stage] for unit in chunk.units}
        return zero.pieces(units, self.at.par)

    def owned(self, stage: int) -> int:
        """Parameters of a stage that one of its ranks updates, the one with most."""
        par = self.at.par
        if par.whole_tensors:
            return zero.most(zero.merged([piece for found in self.pieces(stage).values() for piece in found]))
        return zero.owned(self.weights(stage), par) if par.shards else self.weights(stage).total

    def order(self, stage: int) -> list[Pass]:
        """Passes of a stage."""
        par = self.at.par
        return order(par.schedule, stage, par.pp, par.micro_batches, par.virtual_stages)

    def memory(self, stage: int, passes: Sequence[Pass]) -> Memory:
        """Peak bytes on one NPU of a stage."""
        chunks = self.stages[stage]
        weights = self.weights(stage)
        base = states(weights, self.at.par, self.owned(stage))
        units = {unit.name: unit.weights for chunk in chunks for unit in chunk.units}
        largest = max(units.values(), key=lambda weights: weights.total)
        kept = held(list(passes), [chunk.activations for chunk in chunks])
        extra = gathered(self.at.par, largest)
        between = temporary(self.at, weights, units)
        return Memory(base.weights + extra, base.gradients, base.optimizer, kept, between)


class Builder:
    """Builds the program of one stage, of the ranks that stand at `ring` in context parallelism."""

    def __init__(self, plan: Plan, stage: int, passes: Sequence[Pass], ring: Ring) -> None:
        self.at, self.par, self.model = plan.at, plan.at.par, plan.at.model
        self.stage, self.chunks, self.passes = stage, plan.stages[stage], passes
        self.weights, self.owned = plan.weights(stage), plan.owned(stage)
        self.pieces = plan.pieces(stage) if self.par.whole_tensors else {}
        """By unit, what each owner of whole tensors holds."""
        self.message = self.at.full // self.par.tp if self.par.scatter_gather else self.at.cut
        """Bytes of a message between stages."""
        self.program = Program()
        self.stream = Stream(self.program, self.par.bytes.gemm, ring)
        self.chain: dict[str, list[int]] = {}
        """Last collective of each data-parallel group."""
        self.stored: list[int] = []
        """Stores of gradients outside."""
        self.parameters: dict[str, list[int]] = {}
        """Gathers that a unit's first pass waits for."""
        self.starts: list[list[int]] = []
        """What the stream waited for as each pass began."""
        self.last_kind = "W" if self.par.schedule == "zb-h1" else "B"

    def build(self) -> Program:
        """The whole step."""
        if self.par.shards in (1, 2) and self.par.overlap_param_gather:
            for chunk in self.chunks:
                for unit in chunk.units:
                    self.parameters[unit.name] = self._renew(unit.name, [unit], [])
        for each in self.passes:
            self.starts.append(self.stream.after)
            if each.kind == "F":
                self._forward(each)
            elif each.kind == "B":
                self._backward(each)
            else:
                self._weight_gradients(each)
        self._update()
        return self.program

    def _forward(self, each: Pass) -> None:
        stream, units = self.stream, self.chunks[each.chunk].units
        self._prefetch(units[0], each, "gather")
        self._receive(each, 0, not (self.stage == 0 and each.chunk == 0))
        for i, unit in enumerate(units):
            self._wait_parameters(unit)
            if i + 1 < len(units):
                self._prefetch(units[i + 1], each, "gather")
            with self.program.layer(unit.name), self.program.holding(allocates=unit.activations):
                stream.play(f"{each.micro_batch}.{unit.name}.", unit.scripts.forward)
        self._send(each, 0, not self._is_end(each.chunk))

    def _backward(self, each: Pass) -> None:
        stream, units = self.stream, self.chunks[each.chunk].units[::-1]
        whole = self.last_kind == "B"
        self._prefetch(units[0], each, "regather")
        self._receive(each, 1, not self._is_end(each.chunk))
        for i, unit in enumerate(units):
            self._wait_parameters(unit)
            if i + 1 < len(units):
                self._prefetch(units[i + 1], each, "regather")
            prefix = f"{each.micro_batch}.{unit.name}."
            with self.program.layer(unit.name):
                if unit.again:
                    stream.play(f"{prefix}again.", unit.again)
                with self.program.holding(frees=unit.activations if whole else 0):
                    stream.play(prefix, unit.scripts.backward if whole else unit.scripts.inputs)
                if whole:
                    self._accumulate(unit, each)
            if whole:
                self._reduce(unit, each)
        self._send(each, 1, not (self.stage == 0 and each.chunk == 0))

    def _weight_gradients(self, each: Pass) -> None:
        for unit in reversed(self.chunks[each.chunk].units):
            with self.program.layer(unit.name), self.program.holding(frees=unit.activations):
                self.stream.play(f"{each.micro_batch}.{unit.name}.", unit.scripts.weights)
                self._accumulate(unit, each)
            self._reduce(unit, each)

    def _accumulate(self, unit: Unit, each: Pass) -> None:
        """Adds a micro-batch's gradients to those before it, of which the first's only have to become as wide.

        Fused multiplications do so themselves, of which only those of experts are too small to hide what they read and
        write for it.
        """
        par, weights = self.par, unit.weights
        if par.shards > 1:
            return
        kept = (2 if each.micro_batch else 1) * par.gradient_bytes
        if not self.at.eager:
            moved = weights.expert * (kept - par.bytes.weight)
        elif each.micro_batch or par.gradient_bytes > par.bytes.weight:
            moved = weights.total * (par.bytes.weight + kept)
        else:
            moved = 0
        if moved:
            self.stream.play(f"{each.micro_batch}.{unit.name}.", (Work("accumulate", "optimizer", 0, moved),))

    def _is_end(self, chunk: int) -> bool:
        """Whether the chunk is the model's last."""
        return self.stage == self.par.pp - 1 and chunk == len(self.chunks) - 1

    def _peer(self, ahead: int) -> int:
        """Ranks to the same place in the next (1) or the previous (-1) stage, round the end."""
        to = (self.stage + ahead) % self.par.pp
        return (to - self.stage) * self.par.tp * self.par.data

    def _tag(self, each: Pass, chunk: int, backward: int) -> int:
        """Unique by micro-batch, chunk that the data belong to, and direction."""
        return (each.micro_batch * self.par.virtual_stages + chunk) * 2 + backward

    def _receive(self, each: Pass, backward: int, needed: bool) -> None:
        """Posted when the pass before begins: one message is in flight while the stage computes."""
        if needed:
            posted = self.starts[-2] if len(self.starts) > 1 else []
            tag = self._tag(each, each.chunk, backward)
            name = f"{each.micro_batch}.receive{'_grad' * backward}.{each.chunk}"
            peer = self._peer(1 if backward else -1)
            with self.program.layer(_PIPELINE):
                node = self.program.recv(name, posted, peer, self.message, tag)
                if self.message < self.at.cut:
                    node = self.program.collective(f"{name}.gather", [node], "all_gather", self.message, "tp")
            self.stream.wait(node)

    def _send(self, each: Pass, backward: int, needed: bool) -> None:
        if needed:
            wraps = self.stage == (0 if backward else self.par.pp - 1)
            chunk = each.chunk + (wraps if not backward else -wraps)
            name = f"{each.micro_batch}.send{'_grad' * backward}.{each.chunk}"
            peer = self._peer(-1 if backward else 1)
            with self.program.layer(_PIPELINE):
                self.program.send(name, self.stream.after, peer, self.message, self._tag(each, chunk, backward))

    def _prefetch(self, unit: Unit, each: Pass, what: str) -> None:
        """ZeRO 3: starts gathering a unit's parameters."""
        if self.par.shards == 3:
            name = f"{each.micro_batch}.{what}.{unit.name}"
            with self.program.layer(unit.name):
                self.parameters[unit.name] = self._gather(name, unit.weights, self.stream.after, unit.width)

    def _wait_parameters(self, unit: Unit) -> None:
        for node in self.parameters.pop(unit.name, []):
            self.stream.wait(node)

    def _gather(self, name: str, weights: Weights, after: Sequence[int], width: int) -> list[int]:
        parts = zero.sharded(weights, self.par)
        if self.par.offload == "parameters":
            return [self._load(f"{name}.parameters", part, after) for part in parts]
        return [
            self._chained(f"{name}.parameters.{group}", after, "all_gather", -(-count // size) * width, group)
            for group, size, count in parts
            if size > 1
        ]

    def _renew(self, name: str, units: Sequence[Unit], after: Sequence[int]) -> list[int]:
        """ZeRO 1 and 2: brings what others updated."""
        if not self.par.whole_tensors:
            return [
                node
                for width in sorted({unit.width for unit in units}, reverse=True)
                for node in self._gather(name, _total(unit for unit in units if unit.width == width), after, width)
            ]
        width, several = self.par.bytes.weight, zero.several(self.par)
        return [
            self._chained(f"{name}.parameters.{group}.{owner}", after, "broadcast", held * width, group, owner)
            for group, owner, held in zero.merged([piece for unit in units for piece in self.pieces[unit.name]])
            if group in several
        ]

    def _reduce(self, unit: Unit, each: Pass) -> None:
        """Reduces a unit's gradients once they are complete, or in every micro-batch where none are kept whole."""
        last = each.micro_batch == self.par.micro_batches - 1
        if self.par.shards >= 2 or (last and self.par.overlap_grad_reduce):
            with self.program.layer(unit.name):
                self._reduction(f"{each.micro_batch}.{unit.name}", unit.weights, last)

    def _load(self, name: str, part: zero.Part, after: Sequence[int]) -> int:
        """Brings a unit's parameters from memory outside: a shard, gathered in its switches or by the ranks."""
        group, size, count = part
        width, load = self.par.bytes.weight, f"{name}.load.{group}"
        shard = -(-count // size) * width
        if self.par.in_switch:
            # A pool is everybody's: what only some ranks replicate each of them loads whole.
            reach, amount = ("in_switch", shard) if group == "dp" else ("remote", count * width)
            return self.program.memory(load, after, amount, reach=reach)
        node = self.program.memory(load, after, shard)
        return node if size == 1 else self._chained(f"{name}.{group}", [node], "all_gather", shard, group)

    def _store(self, name: str, part: zero.Part, last: bool) -> None:
        """Brings a unit's gradients to memory outside, reduced on the way."""
        group, size, count = part
        width, store = self.par.gradient_bytes, f"{name}.store.{group}"
        shard = -(-count // size) * width
        if self.par.in_switch and group == "dp":
            node = self.program.memory(store, self.stream.after, shard, store=True, reach="in_switch")
        else:
            node = self.program.memory(store, self._scattered(name, part, last), shard, store=True)
        self.stored.append(node)

    def _reduction(self, name: str, weights: Weights, last: bool = True) -> None:
        par = self.par
        if not par.shards or par.whole_tensors:
            for group, ranks, count in zero.replicated(weights, par):
                if ranks > 1:
                    size = count * par.gradient_bytes
                    self._in_buckets(f"{name}.gradients.{group}", "all_reduce", size, group)
            return
        for part in zero.sharded(weights, par):
            if par.offload == "parameters":
                self._store(f"{name}.gradients", part, last)
            else:
                self._scattered(f"{name}.gradients", part, last)

    def _scattered(self, name: str, part: zero.Part, last: bool) -> Sequence[int]:
        """Reduces gradients to shards, the last micro-batch's over their replicas too; what to wait for."""
        group, ranks, count = part
        width, ready = self.par.gradient_bytes, self.stream.after
        if ranks > 1:
            ready = [self._in_buckets(f"{name}.{group}", "reduce_scatter", count * width, group)]
        if last and self.par.replicas > 1:
            shard = -(-count // ranks) * width
            ready = [self._chained(f"{name}.{group}.{zero.REPLICAS}", ready, "all_reduce", shard, zero.REPLICAS)]
        return ready

    def _in_buckets(self, name: str, kind: str, size: int, group: str) -> int:
        """Reduces gradients one bucket after the other, as even as they come; the last one."""
        most = self.par.bucket_mb and round(self.par.bucket_mb * 1e6)
        count = min(size, -(-size // most)) if most else 1
        names = [name] if count == 1 else [f"{name}.{i}" for i in range(count)]
        for i, each in enumerate(names):
            part = size * (i + 1) // count - size * i // count
            node = self._chained(each, self.stream.after, kind, part, group)
        return node

    def _chained(self, name: str, after: Sequence[int], kind: str, size: int, group: str, root: int = 0) -> int:
        before = self.chain.get(group, [])
        node = self.program.collective(name, [*after, *before], kind, size, group, root=root)
        self.chain[group] = [node]
        return node

    def _update(self) -> None:
        """Gradients complete, tied embeddings exchanged, the optimizer, parameters back."""
        par = self.par
        if not par.overlap_grad_reduce and par.shards < 2:
            self._reduction("step", self.weights)
        for chain in self.chain.values():
            for node in chain:
                self.stream.wait(node)
        if self.model.tied and par.pp > 1 and self.stage in (0, par.pp - 1):
            self._exchange_tied()
        for node in self.stored:
            self.stream.wait(node)
        if par.offload == "none":
            self._optimize("step.", self.owned)
        else:
            self._optimize_outside()
        if par.shards in (1, 2) and not par.overlap_param_gather:
            units = [unit for chunk in self.chunks for unit in chunk.units]
            self._unflatten(units, self._renew("step", units, self.stream.after))

    def _unflatten(self, units: Sequence[Unit], after: Sequence[int]) -> None:
        """The host copies every tensor's pieces of all ranks out of what was gathered."""
        tensors = sum(len(unit.tensors.dense) + len(unit.tensors.expert) for unit in units)
        took = round(1e6 * self.par.unflatten_us * tensors * self.par.shard_ranks)
        if took and after:
            self.stream.wait(self.program.compute("step.unflatten", after, duration_ps=took, host=True))

    def _optimize(self, name: str, count: int) -> None:
        par = self.par
        moved = par.gradient_bytes + 2 * par.bytes.optimizer + par.bytes.weight
        self.stream.play(name, (Work("optimizer", "optimizer", 0, count * moved),))

    def _optimize_outside(self) -> None:
        """Unit by unit: states come in, ahead of the kernels that need them, and go back."""
        par, ready = self.par, list(self.stream.after)
        whole = par.offload == "parameters"
        for unit in (unit for chunk in self.chunks for unit in chunk.units if unit.weights.total):
            count = zero.owned(unit.weights, par) if par.shards else unit.weights.total
            comes = count * (par.bytes.optimizer + par.gradient_bytes * whole)
            goes = count * (par.bytes.optimizer + par.bytes.weight * whole)
            with self.program.layer(unit.name):
                self.stream.wait(self.program.memory(f"step.{unit.name}.load", ready, comes))
                self._optimize(f"step.{unit.name}.", count)
                self.program.memory(f"step.{unit.name}.store", self.stream.after, goes, store=True)

    def _exchange_tied(self) -> None:
        """First and last stage add up their gradients of the embedding: each sends its own to the other."""
        count = head_weights(self.model, self.par.tp)
        par = self.par
        cut = par.shard_ranks if par.shards and not par.whole_tensors else 1
        size = -(-count // cut) * par.gradient_bytes
        peer = self._peer(-1 if self.stage == 0 else 1)
        tag = 2 * par.micro_batches * par.virtual_stages
        self.program.send("step.send_embedding_grad", self.stream.after, peer, size, tag)
        self.stream.wait(self.program.recv("step.receive_embedding_grad", self.stream.after, peer, size, tag))


def _total(units: Iterable[Unit]) -> Weights:
    """All their parameters."""
    return sum((unit.weights for unit in units), Weights())


def program_key(plan: Plan, stage: int, passes: Sequence[Pass]) -> tuple[object, ...]:
    """Stages with equal keys have equal programs."""
    shapes = tuple(tuple((id(unit.scripts), unit.weights) for unit in chunk.units) for chunk in plan.stages[stage])
    return shapes, stage == 0, stage == plan.at.par.pp - 1, tuple(passes)


def rings(par: Parallelism) -> list[Ring]:
    """Where the neighbours of each context-parallel rank are, if it sends to them: the last's next is the first."""
    if par.cp == 1 or par.cp_comm_type != "p2p":
        return [Ring(0, 0)]
    round_ = (par.cp - 1) * par.tp
    ahead, behind = [par.tp] * (par.cp - 1) + [-round_], [round_] + [-par.tp] * (par.cp - 1)
    return [Ring(*neighbours) for neighbours in zip(ahead, behind, strict=True)]


def build_stage(plan: Plan, stage: int, passes: Sequence[Pass], ring: Ring) -> Program:
    """The program of one rank of `stage`."""
    return Builder(plan, stage, passes, ring).build()
