"""Parts that many layouts share: blocks of units, choices of data parallelism, messages, splits.

Here: which parts a layout has, and their times and sizes in one `_core.LayoutSpace`. Each part is
made once. Not here: who takes the times (`timing.py`), which layouts there are (`space.py`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .. import _core
from ..model.decoder import Decoder
from ..model.weights import Weights, head_weights
from ..units import MB
from ..workload import buckets, zero
from ..workload.decoder_plan import DecoderPlan, laid_out
from ..workload.layer import cast
from ..workload.memory import shares
from ..workload.mesh import steps
from ..workload.parallelism import Parallelism, changed
from ..workload.plan import Unit, placement
from ..workload.script import (
    CollectiveStep,
    Exchange,
    Gemm,
    KernelStep,
    Script,
    Start,
    Step,
    Wait,
)
from ..workload.setting import Setting
from .keys import block_key, data_key, mesh_key, rank_key, size_key, stage_key
from .timing import Call, Clock

EMBEDDING, HEAD, SHARED_HEAD, MODULE, COPY = range(5)
"""Kinds of units of every model; those of layers follow, and after them the same layers where
recomputation counts layers and leaves them out."""


class Work(NamedTuple):
    """Scripts of a unit."""

    forward: Script
    narrow: Script
    again: Script
    backward: Script
    inputs: Script
    weights: Script
    first: Script
    more: Script


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of a model's layers."""

    layers: tuple[int, ...]
    """Kind of each layer."""
    samples: tuple[int, ...]
    """A layer of each kind."""

    @classmethod
    def of(cls, model: Decoder) -> Kinds:
        """The kinds of `model`."""
        known: dict[tuple[bool, Decoder], int] = {}
        samples, layers = [], []
        for layer in range(model.layers):
            key = model.has_experts(layer), model.of(layer)
            if key not in known:
                known[key] = COPY + 1 + len(known)
                samples.append(layer)
            layers.append(known[key])
        return cls(tuple(layers), tuple(samples))


@dataclass
class Parts:
    """Parts of the layouts of a model on a platform."""

    model: Decoder
    clock: Clock
    like: Parts | None = None
    """Parts of the same model on another machine: what layouts do is shared with them."""
    space: _core.LayoutSpace = field(init=False)
    kinds: Kinds = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = Kinds.of(self.model)
        described = self.clock.platform.describe()
        settings = described["npu"]["compute_settings"] or {}
        self.space = _core.LayoutSpace(settings.get("comm_overlap_slowdown_ppm", 0) / 1e6)
        self._dims = [each["size"] for each in described["fabric"]["dims"]]
        self._kernels: dict[Step, int] = {}
        self._waits: dict[Hashable, dict[Step, int]] = {}
        self._known: dict[Hashable, int] = {}
        self._units: dict[Hashable, list[Unit]] = self.like._units if self.like else {}
        self._works: dict[Hashable, list[Work]] = self.like._works if self.like else {}
        self._scripts: dict[Hashable, dict[Script, tuple[int, int]]] = {}
        self._calls: dict[Hashable, dict[Call, int]] = {}
        self._messages: dict[Hashable, dict[int, list[int]]] = {}

    def once(self, key: Hashable, make: Callable[[], int]) -> int:
        """The index of a part that is made when it is asked for first."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def units(self, par: Parallelism) -> list[Unit]:
        """A unit of each kind on a rank."""
        key = block_key(par)
        if key not in self._units:
            alone = _alone(par)
            plan = DecoderPlan(Setting(self.model, alone))
            tied = DecoderPlan(Setting(self.model, changed(alone, pp=2)))
            embedding = plan.embedding()
            copy = replace(embedding, name="mtp.embedding", activations=0)
            module = plan.module("mtp0") if par.mtp else embedding
            if par.recompute_layers is None:
                layers = [plan.layer(f"layer{layer}", layer) for layer in self.kinds.samples]
            else:
                both = [plan.counted(layer) for layer in self.kinds.samples]
                layers = [each for kinds in zip(*both, strict=True) for each in kinds]
            self._units[key] = [embedding, tied.head(), plan.head(), module, copy, *layers]
        return self._units[key]

    def works(self, par: Parallelism) -> list[Work]:
        """Scripts of each kind, multiplications with their widths."""
        key = block_key(par)
        if key not in self._works:
            self._works[key] = self._made(par)
        return self._works[key]

    def _made(self, par: Parallelism) -> list[Work]:
        at = Setting(self.model, par)
        found = []
        for kind, unit in enumerate(self.units(par)):
            scripts = unit.scripts
            ready = unit.narrow if par.fp8_param_gather else 0
            narrow = cast(at, "weights", unit.narrow, ready) if unit.narrow else ()
            work = Work(
                scripts.forward,
                narrow,
                unit.again,
                scripts.backward,
                scripts.inputs,
                scripts.weights,
                _sums(at, unit.trained, False),
                _sums(at, unit.trained, True),
            )
            if kind == COPY:
                work = Work(*((),) * len(Work._fields))
            found.append(Work(*(_wide(script, par.bytes.multiplied) for script in work)))
        return found

    def measure(
        self, wanted: Iterable[Parallelism], say: Callable[[float], None] = lambda _: None
    ) -> None:
        """Takes the times of all scripts of some layouts. Says which share of it is done."""
        open_: dict[Hashable, tuple[Parallelism, dict[Script, None]]] = {}
        blocks = {block_key(par): par for par in wanted}
        for at, par in enumerate(blocks.values()):
            say(at / len(blocks) / 2)
            key = mesh_key(par)
            known = self._scripts.setdefault(key, {(): (0, 0)})
            _, scripts = open_.setdefault(key, (par, {}))
            for work in self.works(par):
                scripts.update(dict.fromkeys(each for each in work if each not in known))
        for at, (par, scripts) in enumerate(open_.values()):
            say((1 + at / len(open_)) / 2)
            if scripts:
                self._measure(par, list(scripts))

    def _measure(self, par: Parallelism, scripts: Sequence[Script]) -> None:
        """Takes the times of new scripts of a mesh, and of each of their operations."""
        key = mesh_key(par)
        every = dict.fromkeys(_plain(step) for script in scripts for step in script)
        kernels = [
            step
            for step in every
            if isinstance(step, Gemm | KernelStep) and step not in self._kernels
        ]
        times = self.clock.kernels([(step,) for step in kernels])
        self._kernels.update(zip(kernels, times, strict=True))
        known = self._waits.setdefault(key, {})
        waits = [step for step in every if isinstance(step, Start | Exchange) and step not in known]
        alone = changed(
            par,
            pp=1,
            dp=par.world // (par.tp * par.cp),
            virtual_stages=1,
            schedule="1f1b",
            layers_per_stage=None,
            zero_group=None,
            zero=0,
        )
        singles = [(step, Wait("")) for step in waits]
        timed = self.clock.scripts(alone, [*scripts, *singles])
        known.update(zip(waits, timed[len(scripts) :], strict=True))
        sums = [
            sum(
                self._kernels[_plain(step)]
                for step in script
                if isinstance(step, Gemm | KernelStep)
            )
            for script in scripts
        ]
        self._scripts[key].update(zip(scripts, zip(timed, sums, strict=False), strict=True))

    def _ops(self, par: Parallelism, script: Script) -> int:
        """The operations of a script, for the estimate."""
        key = mesh_key(par), script
        return self.once(("ops", key), lambda: self.space.script(self._operations(par, script)))

    def _operations(self, par: Parallelism, script: Script) -> list[tuple[str, int, int, int]]:
        waits = self._waits.get(mesh_key(par), {})
        found: list[tuple[str, int, int, int]] = []
        numbers: dict[str, int] = {}
        for step in script:
            if isinstance(step, Gemm | KernelStep):
                time = self._kernels[_plain(step)]
                if found and found[-1][0] == "k":
                    time += found.pop()[1]
                found.append(("k", time, 0, 0))
            elif isinstance(step, Wait):
                found.append(("w", 0, 0, numbers[step.name]))
            else:
                dims = 0 if isinstance(step, Exchange) else self._dims_of(par, step.group)
                time = waits[_plain(step)]
                if isinstance(step, CollectiveStep):
                    found.append(("c", time, dims, 0))
                else:
                    numbers[step.name] = len(numbers)
                    found.append(("s", time, dims, numbers[step.name]))
        return found

    def _dims_of(self, par: Parallelism, group: str) -> int:
        """Dimensions of the platform that a group's collectives use, a bit for each."""
        found = 0
        for count, stride in steps(par, group):
            inner = 1
            for dim, size in enumerate(self._dims):
                if len({rank * stride // inner % size for rank in range(count)}) > 1:
                    found |= 1 << min(dim, 7)
                inner *= size
        return found

    def block(self, par: Parallelism) -> int:
        """The block of a layout."""
        return self.once(("block", block_key(par)), lambda: self._block(par))

    def _block(self, par: Parallelism) -> int:
        known = self._scripts[mesh_key(par)]
        plan = DecoderPlan(Setting(self.model, _alone(par)))
        rows = []
        for unit, work in zip(self.units(par), self.works(par), strict=True):
            times = [known[script] for script in work]
            row = [
                *(each for pair in times[:6] for each in pair),
                times[6][0],
                times[7][0],
                *(self._ops(par, script) for script in work[:6]),
            ]
            rows.append((row, unit.sizes(plan.experts)))
        return self.space.block(rows, plan.rules(0))

    def splits(self, par: Parallelism, counts: tuple[int | None, ...]) -> tuple[int, int]:
        """The units of each part of a layout's pipeline with these numbers of recomputed layers,
        next to each other: the first, and one past the last."""
        key = "splits", self._split_key(par), counts
        first = self.once(
            key,
            lambda: min(self._split(changed(par, recompute_layers=each)) for each in counts),
        )
        return first, first + len(counts)

    def _split_key(self, par: Parallelism) -> Hashable:
        return (
            par.pp,
            par.virtual_stages,
            par.both_ways,
            par.layers_per_stage,
            par.partition,
            par.mtp,
        )

    def _split(self, par: Parallelism) -> int:
        at = Setting(self.model, par)
        layout, place = laid_out(at), placement(at)
        shared = self.model.tied and (par.pp == 1 or par.both_ways)
        parts = []
        for part, (count, first, modules) in enumerate(
            zip(layout.layers, layout.first, layout.mtp, strict=True)
        ):
            units = list(self.kinds.layers[first : first + count])
            if par.recompute_layers is not None:
                left = units[par.recompute_layers :]
                units[par.recompute_layers :] = [unit + len(self.kinds.samples) for unit in left]
            units += [MODULE] * modules
            units = [EMBEDDING, *units] if part == 0 else units
            units += [SHARED_HEAD if shared else HEAD] if part == place.parts - 1 else []
            parts.append(units)
        self._copies(par, parts, place.chunks)
        sharing = [] if par.both_ways and self.model.tied else self._sharing(par, parts)
        return self.space.split(parts, sharing)

    def _copies(self, par: Parallelism, parts: list[list[int]], chunks: int) -> None:
        """The embedding's weights where modules need them and neither it nor a tied head is
        there."""
        at = placement(Setting(self.model, par))
        for stage in range(par.pp):
            mine = [at.part(stage, chunk) for chunk in range(chunks)]
            units = {unit for part in mine for unit in parts[part]}
            tied = self.model.tied and units & {HEAD, SHARED_HEAD}
            if MODULE in units and not (EMBEDDING in units or tied):
                part = next(part for part in mine if MODULE in parts[part])
                parts[part].insert(0, COPY)

    def _sharing(self, par: Parallelism, parts: Sequence[Sequence[int]]) -> list[int]:
        at = placement(Setting(self.model, par))
        found = []
        for stage in range(1, par.pp):
            units = {u for chunk in range(at.chunks) for u in parts[at.part(stage, chunk)]}
            if COPY in units or (self.model.tied and HEAD in units):
                found.append(stage)
        return found

    def pipeline(self, par: Parallelism) -> int:
        """The pipeline of a layout."""
        key = (par.schedule, par.pp, par.micro_batches, par.virtual_stages, par.overlap_passes)
        return self.once(("pipeline", *key), lambda: self.space.pipeline(*key))

    def messages(self, par: Parallelism) -> int:
        """Times of messages into each part."""
        at = Setting(self.model, par)
        size = at.full // par.tp if par.scatter_gather else at.cut
        key = stage_key(par), par.tp, size, at.cut, self._split_key(par)
        return self.once(("messages", key), lambda: self._into_parts(par, size, at))

    def _into_parts(self, par: Parallelism, size: int, at: Setting) -> int:
        if par.pp == 1:
            return self.space.messages([0, 0])
        whole, layout = at.cut, laid_out(at)
        carried = [layout.carried(part) for part in range(len(layout.layers))]
        known = self._messages.setdefault(stage_key(par), {})
        wanted = sorted({size * many for many in carried} - set(known))
        if wanted:
            known.update(zip(wanted, self.clock.messages(par, wanted), strict=True))
        times = [0]
        for part, many in enumerate(carried):
            if part:
                between = known[size * many]
                time = between[(part - 1) % par.pp]
                if size < whole:
                    time += self.call(par, ("all_gather", size * many, "tp"))
                times.append(time)
        return self.space.messages([*times, 0])

    def call(self, par: Parallelism, call: Call) -> int:
        """Time of one collective."""
        return self.calls(par, [call])[call]

    def calls(self, par: Parallelism, wanted: Sequence[Call]) -> Mapping[Call, int]:
        """Times of collectives."""
        known = self._calls.setdefault(rank_key(par), {})
        new = list(dict.fromkeys(each for each in wanted if each not in known))
        if new:
            known.update(zip(new, self.clock.collectives(par, new), strict=True))
        return known

    def data_key(self, par: Parallelism) -> Hashable:
        """All that decides what data parallelism does."""
        stages: Hashable = None
        if not (par.overlap_grad_reduce and par.overlap_param_gather):
            stages = par.pp, par.virtual_stages, par.both_ways, par.layers_per_stage, par.partition
        return rank_key(par), size_key(par), data_key(par), stages

    def data(self, par: Parallelism) -> int:
        """A choice of data parallelism, made anew."""
        units = self.units(par)
        if par.recompute_layers is None:
            units = [*units, *units[COPY + 1 :]]
        reduce = [self._reduction(par, unit.trained) for unit in units]
        gather = [self._gathering(par, unit.trained, unit.width) for unit in units]
        replicas = [self._replicas(par, unit.trained) for unit in units]
        every = [*reduce, *gather, *replicas]
        self.calls(par, [call for pair in every for group in pair for call in group])
        count = len(units)
        alls = [
            self._in_buckets(par, units[i % count].trained, pair) for i, pair in enumerate(every)
        ]
        fixed, each = self._optimizer(par)
        cut = par.shard_ranks if par.zero and not par.whole_tensors else 1
        shared = -(-head_weights(self.model, par.tp) // cut) * par.gradient_bytes
        reduce_all, gather_all = self._at_end(par, units)
        return self.space.data(
            shares(par),
            overlaps_reduction=par.overlap_grad_reduce,
            overlaps_gathering=par.overlap_param_gather,
            reduce=alls[:count],
            pieces=[(len(dense), len(expert)) for dense, expert in reduce],
            gather=alls[count : 2 * count],
            replicas=alls[2 * count :] if par.replicas > 1 and par.zero else [],
            reduce_all=reduce_all,
            gather_all=gather_all,
            shared=self._exchange(par, shared),
            optimizer=fixed,
            optimizer_each=each,
            dims=[self._dims_of(par, group) for group in _groups(par)],
        )

    def _exchange(self, par: Parallelism, size: int) -> int:
        """Time of a message between the first stage and the last."""
        if par.pp == 1 or not (self.model.tied or par.mtp):
            return 0
        known = self._messages.setdefault(stage_key(par), {})
        if size not in known:
            known[size] = self.clock.messages(par, [size])[0]
        return known[size][par.pp - 1]

    def _times(self, par: Parallelism, pair: tuple[list[Call], list[Call]]) -> tuple[int, int]:
        calls = self.calls(par, [*pair[0], *pair[1]])
        first, second = (sum(calls[call] for call in group) for group in pair)
        return first, second

    def _in_buckets(
        self, par: Parallelism, weights: Weights, pair: tuple[list[Call], list[Call]]
    ) -> tuple[int, int]:
        """Times of a unit's collectives. Where it may share buckets, its part of a large one: a
        shared one takes no less for each byte."""
        most = round((par.bucket_mb or 0) * MB)
        if par.zero > 1 or weights.total * par.reduced_bytes >= most:
            return self._times(par, pair)
        found = []
        for group, alone in zip(pair, self._times(par, pair), strict=True):
            large = [(kind, max(most, size), name) for kind, size, name in group]
            calls = self.calls(par, large)
            both = zip(group, large, strict=True)
            shared = sum(calls[many] * one[1] // many[1] for one, many in both)
            found.append(min(alone, shared))
        return found[0], found[1]

    def _reduction(self, par: Parallelism, weights: Weights) -> tuple[list[Call], list[Call]]:
        """Collectives that reduce gradients of dense parameters, and of experts."""
        whole = not par.zero
        parts = zero.replicated(weights, par) if whole else zero.sharded(weights, par)
        kind = "all_reduce" if whole else "reduce_scatter"
        return _pair(
            (
                part.group,
                [
                    (kind, size, part.group)
                    for _, size in buckets.pieces("", part.held * par.gradient_bytes, par.bucket_mb)
                ],
            )
            for part in parts
            if part.size > 1
        )

    def _gathering(
        self, par: Parallelism, weights: Weights, width: int
    ) -> tuple[list[Call], list[Call]]:
        if not par.zero:
            return [], []
        return _pair(
            (part.group, [("all_gather", -(-part.held // part.size) * width, part.group)])
            for part in zero.sharded(weights, par)
            if part.size > 1
        )

    def _replicas(self, par: Parallelism, weights: Weights) -> tuple[list[Call], list[Call]]:
        if not par.zero or par.replicas == 1:
            return [], []
        return _pair(
            (
                part.group,
                [("all_reduce", -(-part.held // part.size) * par.gradient_bytes, zero.REPLICAS)],
            )
            for part in zero.sharded(weights, par)
        )

    def _at_end(
        self, par: Parallelism, units: Sequence[Unit]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Times of one reduction of all gradients of each stage, and of one gathering."""
        reduces = not par.overlap_grad_reduce and par.zero < 2
        gathers = not par.overlap_param_gather and par.zero in (1, 2)
        if not (reduces or gathers):
            return [], []
        plan = DecoderPlan(Setting(self.model, par))
        reduce_all, gather_all = [], []
        for stage in range(par.pp):
            held = plan.trained(stage)
            reduce_all.append(self._times(par, self._reduction(par, held)) if reduces else (0, 0))
            if gathers:
                of_stage = [unit for chunk in plan.stages[stage] for unit in chunk.units]
                widths = sorted({unit.width for unit in of_stage})
                sums = [
                    self._times(
                        par,
                        self._gathering(
                            par,
                            sum((u.trained for u in of_stage if u.width == width), Weights()),
                            width,
                        ),
                    )
                    for width in widths
                ]
                gather_all.append((sum(a for a, _ in sums), sum(b for _, b in sums)))
            else:
                gather_all.append((0, 0))
        return reduce_all, gather_all

    def _optimizer(self, par: Parallelism) -> tuple[float, float]:
        """Time of the optimizer without parameters, and for each of them."""
        moved = par.optimizer_bytes
        few, many = 1 << 24, 1 << 32
        steps = [(KernelStep("optimizer", "optimizer", 0, n * moved),) for n in (few, many)]
        low, high = self.clock.kernels(steps)
        each = (high - low) / (many - few)
        return max(low - each * few, 0.0), each


def _alone(par: Parallelism) -> Parallelism:
    """The same layers without a pipeline."""
    return changed(par, pp=1, virtual_stages=1, schedule="1f1b", layers_per_stage=None)


def _pair(found: Iterable[tuple[str, list[Call]]]) -> tuple[list[Call], list[Call]]:
    dense: list[Call] = []
    expert: list[Call] = []
    for group, calls in found:
        (expert if group in ("edp", "ezero") else dense).extend(calls)
    return dense, expert


def _groups(par: Parallelism) -> tuple[str, str, str]:
    """Groups of collectives of dense parameters, of experts and of replicas."""
    if par.zero and par.replicas > 1:
        return "zero", "ezero", zero.REPLICAS
    return "dp", "edp", "dp"


def _plain(step: Step) -> Step:
    """A step without its name; a collective that is waited for at once like any other."""
    if isinstance(step, CollectiveStep):
        return Start("", *step[1:])
    return step._replace(name="")


def _sums(at: Setting, weights: Weights, later: bool) -> Script:
    """Sums of a micro-batch's gradients, as `stage.py` accumulates them."""
    par = at.par
    kept = (2 if later else 1) * par.gradient_bytes
    if not at.eager:
        moved = weights.expert * (kept - par.bytes.weight)
    elif later or par.gradient_bytes > par.bytes.weight:
        moved = weights.total * (par.bytes.weight + kept)
    else:
        moved = 0
    return (KernelStep("accumulate", "optimizer", 0, moved),) if moved else ()


def _wide(script: Script, width: int) -> Script:
    """Multiplications with the width of the layout's numbers where they have none."""
    return tuple(
        step._replace(width=width) if isinstance(step, Gemm) and not step.width else step
        for step in script
    )
