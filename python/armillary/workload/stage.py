"""The program of one pipeline stage.

Here: passes in the schedule's order, messages between stages, reduction of gradients, gathering of
parameters, the optimizer. Not here: which units a stage has (`plan.py`), what a layer does
(`layer.py`, `experts.py`).

- Passes that run at the same time have a stream each. Their kernels are added layer by layer, those
  of the forward pass first. An NPU runs the first kernel that is ready, so while one stream waits
  for communication the other one continues.
- Gradients are all-reduced over dp x cp (ZeRO 0), or reduce-scattered and the updated parameters
  all-gathered (ZeRO 1 and 2). This happens by layer in the backward pass of the last micro-batch;
  with ZeRO 2 and 3 in that of every micro-batch.
- ZeRO 3 gathers the parameters of each layer before its forward and its backward pass, one layer
  ahead.
- Shards of groups of ranks (`zero_group`) are all-reduced over their replicas after the last
  micro-batch. Whole tensors are all-reduced, and broadcast by their owners. With `grad_all_reduce`
  gradients are all-reduced, and parameters all-gathered.
- Collectives of one data-parallel group follow each other, as on one stream.
- With `bucket_mb`, the next layers' gradients join a bucket as long as it has room (ZeRO 0 and 1).
  Parameters are gathered in the same buckets.

Sources: Li et al. 2020 (arXiv:2006.15704); Rajbhandari et al. 2020 (arXiv:1910.02054); Zhao et al.
2023 (arXiv:2304.11277); Zhang et al. 2022 (arXiv:2205.00119)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..model.weights import Weights
from ..units import PS_PER_US
from . import buckets, zero
from .layer import cast
from .parallelism import Parallelism
from .plan import StagePlan, Unit
from .program import Program
from .schedule import Pass, put_off
from .script import KernelStep, KernelStream, Ring

BACKWARD = ".backward"
"""Suffix of the names of groups that backward passes use where forward passes run side by side with
them."""

_PIPELINE = "pipeline"
"""The layer of messages between stages, which belong to none of the model's."""


class Builder:
    """Builds the program of one stage, of the ranks that stand at `ring` in context parallelism."""

    def __init__(self, plan: StagePlan, stage: int, passes: Sequence[Pass], ring: Ring) -> None:
        self.at, self.par = plan.at, plan.at.par
        self.plan, self.place = plan, plan.place
        self.stage, self.chunks, self.passes = stage, plan.stages[stage], passes
        self.trained, self.owned = plan.trained(stage), plan.owned(stage)
        self.pieces = plan.pieces(stage) if self.par.whole_tensors else {}
        """Pieces of each unit that the owners of whole tensors hold."""
        self.message = self.at.full // self.par.tp if self.par.scatter_gather else self.at.cut
        """Bytes of a message between stages."""
        self.program = Program()
        self.stream = KernelStream(self.program, self.par.bytes.multiplied, ring)
        self.chain: dict[str, list[int]] = {}
        """Last collective of each data-parallel group."""
        self.stored: list[int] = []
        """Stores of gradients outside."""
        self.parameters: dict[str, list[int]] = {}
        """Gathers that a unit's first pass waits for."""
        self.starts: list[list[int]] = []
        """Operations that the stream waited for as each pass began."""
        self.before: Pass | None = None
        """The pass before this one."""
        self.later = put_off(passes)
        """Backward passes whose weight gradients are passes of their own."""
        self.buckets = [self._buckets(chunk.units) for chunk in self.chunks]
        """Units of each chunk that are reduced together, for each unit whose gradients come
        last."""

    def build(self) -> Program:
        """The whole step."""
        if self.par.zero in (1, 2) and self.par.overlap_param_gather:
            for held in self.buckets:
                for name, units in reversed(held.items()):
                    gathered = self._renew(name, units, [])
                    self.parameters |= {unit.name: gathered for unit in units}
        passes = iter(self.passes)
        for each in passes:
            self.starts.append(self.stream.after)
            if each.overlaps:
                self._together(each, next(passes))
            else:
                for _ in self._pass(each, self.stream):
                    pass
                self.before = each
        self._update()
        return self.program

    def _buckets(self, units: Sequence[Unit]) -> dict[str, list[Unit]]:
        """Units in the order of their gradients; one alone where it fills a bucket or where shards
        leave no whole gradients."""
        par = self.par

        def size(some: Sequence[Unit]) -> int:
            return _trained(some).total * par.reduced_bytes

        found = buckets.fill(units[::-1], size, par.bucket_mb if par.zero < 2 else None)
        return {held[-1].name: held for held in found}

    def _pass(self, each: Pass, stream: KernelStream) -> Iterator[None]:
        """Adds a pass to a stream, unit by unit."""
        stream.suffix = BACKWARD if self.par.overlap_passes and each.kind != "F" else ""
        if each.kind == "F":
            return self._forward(each)
        return self._backward(each) if each.kind == "B" else self._weight_gradients(each)

    def _together(self, *passes: Pass) -> None:
        """Adds passes side by side, a unit of each in turn; what follows waits for all of them."""
        streams = [self.stream.branch() for _ in passes]
        going = list(zip(streams, map(self._pass, passes, streams), strict=True))
        while going:
            for one in tuple(going):
                self.stream, units = one
                if next(units, self) is self:
                    going.remove(one)
        self.stream.join(streams)

    def _forward(self, each: Pass) -> Iterator[None]:
        units = self.chunks[each.chunk].units
        part = self.place.part(self.stage, each.chunk)
        self._prefetch(units[0], each, "gather")
        self._receive(each, 0, part)
        for i, unit in enumerate(units):
            self._wait_parameters(unit)
            if i + 1 < len(units):
                self._prefetch(units[i + 1], each, "gather")
            if unit.narrow and each.micro_batch == 0:
                self._narrow(unit)
            with self.program.layer(unit.name), self.program.holding(allocates=unit.activations):
                self.stream.play(f"{each.micro_batch}.{unit.name}.", unit.scripts.forward)
            yield
        self._send(each, 0, part + 1)

    def _narrow(self, unit: Unit) -> None:
        """Weights to 8 bits, for the whole step."""
        ready = unit.narrow if self.par.fp8_param_gather else 0
        with self.program.layer(unit.name):
            self.stream.play(f"step.{unit.name}.", cast(self.at, "weights", unit.narrow, ready))

    def _backward(self, each: Pass) -> Iterator[None]:
        units = self.chunks[each.chunk].units[::-1]
        part = self.place.part(self.stage, each.chunk)
        whole = (each.micro_batch, each.chunk) not in self.later
        self._regather(units[0], each)
        self._receive(each, 1, part + 1)
        for i, unit in enumerate(units):
            self._wait_parameters(unit)
            if i + 1 < len(units):
                self._regather(units[i + 1], each)
            self._again(units[i : i + unit.together], each)
            prefix = f"{each.micro_batch}.{unit.name}."
            with self.program.layer(unit.name):
                with self.program.holding(frees=unit.activations if whole else 0):
                    self.stream.play(
                        prefix, unit.scripts.backward if whole else unit.scripts.inputs
                    )
                if whole:
                    self._accumulate(unit, each)
            if whole:
                self._reduce(unit, each)
            yield
        self._send(each, 1, part)

    def _again(self, units: Sequence[Unit], each: Pass) -> None:
        """Computes units again, the last one first in `units`."""
        for unit in reversed(units):
            if unit.again:
                with self.program.layer(unit.name):
                    self.stream.play(f"{each.micro_batch}.{unit.name}.again.", unit.again)

    def _weight_gradients(self, each: Pass) -> Iterator[None]:
        for unit in reversed(self.chunks[each.chunk].units):
            with self.program.layer(unit.name), self.program.holding(frees=unit.activations):
                self.stream.play(f"{each.micro_batch}.{unit.name}.", unit.scripts.weights)
                self._accumulate(unit, each)
            self._reduce(unit, each)
            yield

    def _accumulate(self, unit: Unit, each: Pass) -> None:
        """Accumulates a micro-batch's gradients. The first micro-batch has nothing to add to and is
        only cast to the gradient precision. Fused multiplications do this themselves; only those of
        experts are too small to hide what they read and write for it."""
        par, weights = self.par, unit.trained
        if par.zero > 1:
            return
        kept = (2 if each.micro_batch else 1) * par.gradient_bytes
        if not self.at.eager:
            moved = weights.expert * (kept - par.bytes.weight)
        elif each.micro_batch or par.gradient_bytes > par.bytes.weight:
            moved = weights.total * (par.bytes.weight + kept)
        else:
            moved = 0
        if moved:
            self.stream.play(
                f"{each.micro_batch}.{unit.name}.",
                (KernelStep("accumulate", "optimizer", 0, moved),),
            )

    def _offset(self, stage: int) -> int:
        """Ranks to the same place in another stage."""
        return (
            (self.place.index(stage) - self.place.index(self.stage)) * self.par.tp * self.par.data
        )

    def _tag(self, micro_batch: int, chunk: int, backward: int) -> int:
        """Unique by micro-batch, chunk that the data belong to, and direction."""
        return (micro_batch * self.place.chunks + chunk) * 2 + backward

    def _neighbour(self, each: Pass, entry: int, comes: bool) -> tuple[int, int]:
        """Ranks to the stage that what enters part `entry` (the gradients of what entered it) comes
        from or goes to, and the chunk there."""
        backward = each.kind != "F"
        there = entry if comes is backward else entry - 1
        stage, chunk = self.place.at(there, self.stage, each.chunk)
        return self._offset(stage), chunk

    def _is_cut(self, entry: int) -> bool:
        """Whether there is a part before and after the entry of part `entry`."""
        return 0 < entry < self.place.parts

    def _receive(self, each: Pass, backward: int, entry: int) -> None:
        """Posted when the pass before begins: one message is in flight while the stage computes.
        Without `overlap_p2p`, posted when that pass has ended."""
        if not self._is_cut(entry):
            return
        posted = self.starts[-2] if len(self.starts) > 1 else []
        if not self.par.overlap_p2p:
            posted = self.starts[-1]
        tag = self._tag(each.micro_batch, each.chunk, backward)
        name = f"{each.micro_batch}.receive{'_grad' * backward}.{each.chunk}"
        peer, _ = self._neighbour(each, entry, comes=True)
        size = self.message * self.plan.layout.carried(entry)
        with self.program.layer(_PIPELINE):
            node = self.program.recv(name, posted, peer, size, tag)
            if self.message < self.at.cut:
                group = "tp" + self.stream.suffix
                node = self.program.collective(f"{name}.gather", [node], "all_gather", size, group)
        self.stream.wait(node)

    def _send(self, each: Pass, backward: int, entry: int) -> None:
        if not self._is_cut(entry):
            return
        peer, chunk = self._neighbour(each, entry, comes=False)
        name = f"{each.micro_batch}.send{'_grad' * backward}.{each.chunk}"
        tag = self._tag(each.micro_batch, chunk, backward)
        size = self.message * self.plan.layout.carried(entry)
        with self.program.layer(_PIPELINE):
            node = self.program.send(name, self.stream.after, peer, size, tag)
        if not self.par.overlap_p2p:
            self.stream.wait(node)

    def _prefetch(self, unit: Unit, each: Pass, what: str) -> None:
        """ZeRO 3: starts gathering a unit's parameters."""
        if self.par.zero == 3:
            name = f"{each.micro_batch}.{what}.{unit.name}"
            with self.program.layer(unit.name):
                self.parameters[unit.name] = self._gather(
                    name, unit.weights, self.stream.after, unit.width
                )

    def _regather(self, unit: Unit, each: Pass) -> None:
        """ZeRO 3: starts gathering a unit's parameters before its backward pass, where that needs
        them and the pass before does not leave them."""
        left = each._replace(kind="F") == self.before and unit is self.chunks[each.chunk].units[-1]
        embeds = unit.name.endswith("embedding")
        if self.par.regather == "all" or not (left or embeds):
            self._prefetch(unit, each, "regather")

    def _wait_parameters(self, unit: Unit) -> None:
        for node in self.parameters.pop(unit.name, []):
            self.stream.wait(node)

    def _gather(self, name: str, weights: Weights, after: Sequence[int], width: int) -> list[int]:
        parts = zero.sharded(weights, self.par)
        if self.par.offload == "parameters":
            return [self._load(f"{name}.parameters", part, after) for part in parts]
        return [
            self._chained(
                f"{name}.parameters.{group}", after, "all_gather", -(-count // size) * width, group
            )
            for group, size, count in parts
            if size > 1
        ]

    def _renew(self, name: str, units: Sequence[Unit], after: Sequence[int]) -> list[int]:
        """ZeRO 1 and 2: brings what others updated."""
        if not self.par.whole_tensors:
            return [
                node
                for width in sorted({unit.width for unit in units}, reverse=True)
                for node in self._gather(
                    name, _trained(unit for unit in units if unit.width == width), after, width
                )
            ]
        width, several = self.par.bytes.weight, zero.several(self.par)
        return [
            self._chained(
                f"{name}.parameters.{group}.{owner}", after, "broadcast", held * width, group, owner
            )
            for group, owner, held in zero.merged(
                [piece for unit in units for piece in self.pieces[unit.name]]
            )
            if group in several
        ]

    def _reduce(self, unit: Unit, each: Pass) -> None:
        """Reduces a unit's gradients once they are complete, or in every micro-batch where none are
        kept whole."""
        last = each.micro_batch == self.par.last_micro_batch
        complete = self.buckets[each.chunk].get(unit.name)
        if complete and (self.par.zero >= 2 or (last and self.par.overlap_grad_reduce)):
            with self.program.layer(unit.name):
                self._reduction(f"{each.micro_batch}.{unit.name}", _trained(complete), last)

    def _load(self, name: str, part: zero.OwnedPart, after: Sequence[int]) -> int:
        """Brings a unit's parameters from memory outside: a shard, gathered in its switches or by
        the ranks."""
        group, size, count = part
        width, load = self.par.bytes.weight, f"{name}.load.{group}"
        shard = -(-count // size) * width
        if self.par.in_switch and size > 1:
            return self.program.memory(load, after, shard, reach="in_switch", group=group)
        node = self.program.memory(load, after, shard)
        return (
            node
            if size == 1
            else self._chained(f"{name}.{group}", [node], "all_gather", shard, group)
        )

    def _store(self, name: str, part: zero.OwnedPart, last: bool) -> None:
        """Brings a unit's gradients to memory outside, reduced on the way."""
        group, size, count = part
        width, store = self.par.gradient_bytes, f"{name}.store.{group}"
        shard = -(-count // size) * width
        if self.par.in_switch and size > 1:
            node = self.program.memory(
                store, self.stream.after, shard, store=True, reach="in_switch", group=group
            )
        else:
            node = self.program.memory(store, self._scattered(name, part, last), shard, store=True)
        self.stored.append(node)

    def _reduction(self, name: str, weights: Weights, last: bool = True) -> None:
        par = self.par
        if not par.zero or par.whole_tensors or par.grad_all_reduce:
            for group, ranks, count in zero.replicated(weights, par):
                if ranks > 1:
                    size = count * par.reduced_bytes
                    self._in_buckets(f"{name}.gradients.{group}", "all_reduce", size, group)
            return
        for part in zero.sharded(weights, par):
            if par.offload == "parameters":
                self._store(f"{name}.gradients", part, last)
            else:
                self._scattered(f"{name}.gradients", part, last)

    def _scattered(self, name: str, part: zero.OwnedPart, last: bool) -> Sequence[int]:
        """Reduces gradients to shards, the last micro-batch's over their replicas too; what to wait
        for."""
        group, ranks, count = part
        width, ready = self.par.reduced_bytes, self.stream.after
        if ranks > 1:
            ready = [self._in_buckets(f"{name}.{group}", "reduce_scatter", count * width, group)]
        if last and self.par.replicas > 1:
            shard = -(-count // ranks) * width
            ready = [
                self._chained(
                    f"{name}.{group}.{zero.REPLICAS}", ready, "all_reduce", shard, zero.REPLICAS
                )
            ]
        return ready

    def _in_buckets(self, name: str, kind: str, size: int, group: str) -> int:
        """Reduces gradients one bucket after the other, as even as they come; the last one."""
        for each, part in buckets.pieces(name, size, self.par.bucket_mb):
            node = self._chained(each, self.stream.after, kind, part, group)
        return node

    def _chained(
        self, name: str, after: Sequence[int], kind: str, size: int, group: str, root: int = 0
    ) -> int:
        before = self.chain.get(group, [])
        node = self.program.collective(name, [*after, *before], kind, size, group, root=root)
        self.chain[group] = [node]
        return node

    def _update(self) -> None:
        """Gradients complete, tied embeddings exchanged, the optimizer, parameters back."""
        par = self.par
        if not par.overlap_grad_reduce and par.zero < 2:
            self._reduction("step", self.trained)
        for chain in self.chain.values():
            for node in chain:
                self.stream.wait(node)
        self._exchange_shared()
        for node in self.stored:
            self.stream.wait(node)
        if par.offload == "none":
            self._optimize("step.", self.owned)
        else:
            self._optimize_outside()
        if par.zero in (1, 2) and not par.overlap_param_gather:
            units = [unit for chunk in self.chunks for unit in chunk.units]
            self._unflatten(units, self._renew("step", units, self.stream.after))

    def _unflatten(self, units: Sequence[Unit], after: Sequence[int]) -> None:
        """The host copies every tensor's pieces of all ranks out of what was gathered."""
        tensors = sum(len(unit.tensors.dense) + len(unit.tensors.expert) for unit in units)
        took = round(PS_PER_US * self.par.unflatten_us * tensors * self.par.shard_ranks)
        if took and after:
            self.stream.wait(
                self.program.compute("step.unflatten", after, duration_ps=took, host=True)
            )

    def _optimize(self, name: str, count: int) -> None:
        moved = count * self.par.optimizer_bytes
        self.stream.play(name, (KernelStep("optimizer", "optimizer", 0, moved),))

    def _optimize_outside(self) -> None:
        """Unit by unit: states come in, ahead of the kernels that need them, and go back."""
        par, ready = self.par, list(self.stream.after)
        whole = par.offload == "parameters"
        for unit in (unit for chunk in self.chunks for unit in chunk.units if unit.trained.total):
            count = zero.owned(unit.trained, par) if par.zero else unit.trained.total
            comes = count * par.bytes.optimizer
            comes += count * (par.gradient_bytes + par.master_bytes) * whole
            goes = count * (par.bytes.optimizer + par.bytes.weight * whole)
            with self.program.layer(unit.name):
                self.stream.wait(self.program.memory(f"step.{unit.name}.load", ready, comes))
                self._optimize(f"step.{unit.name}.", count)
                self.program.memory(f"step.{unit.name}.store", self.stream.after, goes, store=True)

    def _exchange_shared(self) -> None:
        """The first stage and those with a copy of the embedding add up their gradients of it: each
        sends its own to the other."""
        par, copies = self.par, self.plan.sharing
        count = self.plan.shared
        cut = par.shard_ranks if par.zero and not (par.whole_tensors or par.grad_all_reduce) else 1
        size = -(-count // cut) * par.gradient_bytes
        tag = 2 * par.micro_batches * self.place.chunks
        ready = self.stream.after
        for other in copies if self.stage == 0 else [0] * (self.stage in copies):
            suffix = f".{other}" if self.stage == 0 and len(copies) > 1 else ""
            peer = self._offset(other)
            self.program.send(f"step.send_embedding_grad{suffix}", ready, peer, size, tag)
            self.stream.wait(
                self.program.recv(f"step.receive_embedding_grad{suffix}", ready, peer, size, tag)
            )


def _trained(units: Iterable[Unit]) -> Weights:
    """All their parameters that are trained."""
    return sum((unit.trained for unit in units), Weights())


def program_key(plan: StagePlan, stage: int, passes: Sequence[Pass]) -> tuple[object, ...]:
    """Stages with equal keys have equal programs."""
    chunks = plan.stages[stage]
    shapes = tuple(
        tuple(
            (unit.name, id(unit.scripts), id(unit.again), unit.weights, unit.frozen)
            for unit in chunk.units
        )
        for chunk in chunks
    )
    place, layout = plan.place, plan.layout
    # Where messages go, how large they are, and whether there are any.
    around = tuple(
        (
            place.index(place.at(entry - ahead, stage, chunk)[0]) - place.index(stage),
            layout.carried(entry),
        )
        if 0 < entry < place.parts
        else None
        for chunk in range(place.chunks)
        for ahead in (0, 1)
        for entry in (place.part(stage, chunk) + 1 - ahead,)
    )
    return shapes, around, stage == 0, stage in plan.sharing, tuple(passes)


def rings(par: Parallelism) -> list[Ring]:
    """Where the neighbours of each context-parallel rank are, if it sends to them: the last's next
    is the first."""
    if par.cp == 1 or par.cp_comm_type != "p2p":
        return [Ring(0, 0)]
    round_ = (par.cp - 1) * par.tp
    ahead, behind = [par.tp] * (par.cp - 1) + [-round_], [round_] + [-par.tp] * (par.cp - 1)
    return [Ring(*neighbours) for neighbours in zip(ahead, behind, strict=True)]


def around(program: Program, par: Parallelism) -> list[Program]:
    """The programs of all context-parallel ranks, given that of the first.

    They differ only in where the neighbours on the ring are. Messages between stages go past the
    whole ring, so a rank on the ring is never one of another stage."""
    every = rings(par)
    found = {
        ring: program.with_peers(dict(zip(every[0], ring, strict=True))) for ring in set(every)
    }
    return [found[ring] for ring in every]


def build_stage(plan: StagePlan, stage: int, passes: Sequence[Pass]) -> list[Program]:
    """The programs of the context-parallel ranks of `stage`."""
    first = Builder(plan, stage, passes, rings(plan.at.par)[0]).build()
    return around(first, plan.at.par)
