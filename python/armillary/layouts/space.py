"""The layouts of a model on a number of ranks, as groups of parts that many of them share.

A layout is a frame (degrees, schedule, micro-batch), what is recomputed, and ZeRO. Frames and
recomputation make a group; its layouts differ in ZeRO and in the ranks that share out a shard.
Where recomputation counts layers, a layout has the fewest that fit the memory, of the values that
are searched: with more, a step has more to do. The core finds them. Not here: the parts
(`parts.py`), which of the layouts is the best (`search.py`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from ..errors import InputError, Problem
from ..model.decoder import Decoder
from ..platform import Platform
from ..workload.checks import combination_faults
from ..workload.decoder_plan import laid_out
from ..workload.frameworks import Framework, load_framework
from ..workload.parallelism import FRAMEWORK_KEYS, Parallelism, changed
from ..workload.parallelism_reader import filled_in
from ..workload.placement import even, shortened, split, split_by_cost
from ..workload.setting import Setting
from .axes import BY_COST, Values, defaults
from .job import Job
from .keys import block_key
from .parts import Parts
from .timing import Clock

FRAME = (
    "tp",
    "cp",
    "pp",
    "ep",
    "etp",
    "micro_batch",
    "schedule",
    "virtual_stages",
    "overlap_passes",
    "sp",
    "layers_per_stage",
)
REPEATED = ("recompute", "recompute_modules", "recompute_layers")
SHARED = ("zero", "zero_group")
SEVERAL = (*FRAME, *SHARED, *REPEATED)
"""Options that have several values by default."""
Choice = tuple[int, int]
"""A layout of a group: its choice of data parallelism, and the place of its number of recomputed
layers among those of the group."""
Shard = tuple[int, int | None]
"""A ZeRO stage, and the ranks that share out a shard."""
_PLAIN = Parallelism()
_UNBOUND = ("whole_tensors", "unflatten_us", "grad_all_reduce", "fp32_grad_reduce", "bucket_mb")
"""Behaviour of frameworks that no bound knows. With ZeRO 0 and 1, layers may share a bucket."""


class LayoutGroup(NamedTuple):
    """Layouts that share their blocks and passes."""

    frame: Parallelism
    """A layout without ZeRO, with the first number of recomputed layers."""
    shards: tuple[Shard, ...]
    """Kinds of ZeRO."""
    counts: tuple[int | None, ...]
    """Numbers of recomputed layers, the fewest first."""


@dataclass
class LayoutSpace:
    """Every layout of the axes, with its parts."""

    model: Decoder
    parts: Parts
    base: Parallelism
    """Options that all layouts have."""
    axes: Mapping[str, Values]
    ranks: int
    given: frozenset[str] = frozenset()
    """Axes whose values the user chose."""
    framework: Framework | None = None
    """Training framework that decides what is neither an axis nor given in `software`."""
    software: Mapping[str, object] = field(default_factory=dict)
    """Behaviour of the framework that the user chose."""
    groups: list[LayoutGroup] = field(default_factory=list)
    """Each group; found where there are none."""
    frames: list[Parallelism] = field(default_factory=list)
    """Group by group, the layout without ZeRO and what the framework decides."""
    shards: list[tuple[Shard, ...]] = field(default_factory=list)
    """Kinds of ZeRO of each group."""
    counts: list[tuple[int | None, ...]] = field(default_factory=list)
    """Numbers of recomputed layers of each group."""
    node: int = 1
    """Ranks within the innermost dimension of the platform."""
    several: tuple[str, ...] = SEVERAL
    """Options that may differ from layout to layout."""
    first: list[int] = field(default_factory=list)
    """Index of each group's first choice of data parallelism."""

    def fill(self, say: Callable[[float], None] = lambda _: None) -> None:
        """Finds the layouts and takes the times of their parts. Says which share is done."""
        self._valid: dict[Hashable, tuple[Shard, ...]] = {}
        self._more = [name for name in self.several if name not in SEVERAL]
        self._sets: dict[Hashable, tuple[int, int]] = {}
        self._by_cost: dict[int, str | None] = {}
        self.groups = self.groups or [
            each for frame in self._frames() for each in self._groups(frame)
        ]
        of_groups = (self._decided(par, shards[0]) for par, shards, _ in self.groups)
        self.parts.measure(of_groups, lambda share: say(0.1 + 0.8 * share))
        space = self.parts.space
        for frame, shards, counts in self.groups:
            span = self._data(frame, shards)
            par = self._decided(frame, shards[0])
            space.group(
                self.parts.pipeline(par),
                self.parts.splits(par, counts),
                self.parts.block(par),
                self.parts.messages(par),
                span,
            )
            self.frames.append(frame)
            self.shards.append(shards)
            self.counts.append(counts)
            self.first.append(span[0])

    def layout(self, group: int, choice: Choice) -> Parallelism:
        """A layout by its group and its choice."""
        plain = self._plain(group, choice)
        return self._decided(plain, (plain.zero, plain.zero_group))

    def _plain(self, group: int, choice: Choice) -> Parallelism:
        """A layout without what its framework decides."""
        data, at = choice
        zero, shared = self.shards[group][data - self.first[group]]
        count = self.counts[group][at]
        return changed(self.frames[group], zero=zero, zero_group=shared, recompute_layers=count)

    def _decided(self, frame: Parallelism, shard: Shard) -> Parallelism:
        """A layout with what its framework decides, as `run` has it."""
        zero, shared = shard
        if self.framework is None and (frame.zero, frame.zero_group) == shard:
            return frame
        plain = changed(frame, zero=zero, zero_group=shared)
        if self.framework is None:
            return plain
        options = {each.name: getattr(plain, each.name) for each in dataclasses.fields(plain)}
        chosen = {
            each.name: each.value
            for each in self.framework.choices
            if each.name not in self.axes and each.name not in self.software and each.holds(options)
        }
        return changed(plain, **chosen)

    def options(self, group: int, choice: Choice) -> dict[str, object]:
        """The options of the model's workload that make a layout, without those that are as by
        default and without the framework's."""
        par = self._plain(group, choice)
        named = {each.name for each in self.framework.choices} if self.framework else set()
        found = {
            each.name: getattr(par, each.name)
            for each in dataclasses.fields(Parallelism)
            if each.name not in (*FRAMEWORK_KEYS, "framework", "framework_set", "ranks")
            and (
                getattr(par, each.name) != getattr(_PLAIN, each.name)
                or (each.name in named and each.name in self.axes)
            )
        }
        usual = {
            "sp": bool(self.model.experts) and par.tp > 1,
            "seq": self.model.sequence,
            "schedule": "interleaved",
            "cp_comm_type": "p2p" if par.attention == "flash" else "all_gather",
        }
        return {name: value for name, value in found.items() if value != usual.get(name, self)}

    def _frames(self) -> Iterator[Parallelism]:
        of = self.axes
        more = self._more
        bases = [
            changed(self.base, **dict(zip(more, row, strict=True)))
            for row in product(*(of[name] for name in more))
        ]
        for tp, cp, pp in product(of["tp"], of["cp"], of["pp"]):
            dp, rest = divmod(self.ranks, tp * cp * pp)  # type: ignore[operator]
            if rest:
                continue
            rows = product(*(of[name] for name in FRAME[3:]))
            for row in rows:
                if not self._plausible(tp, cp, pp, dp, row):  # type: ignore[arg-type]
                    continue
                for base in bases:
                    frame = self._frame(base, tp, cp, pp, dp, row)
                    if frame and not combination_faults(self.model, frame):
                        yield frame

    def _plausible(self, tp: int, cp: int, pp: int, dp: int, row: Sequence[object]) -> bool:
        """Whether a frame may be a layout, by what is quick to see."""
        ep, etp, micro_batch, schedule, chunks, overlap, sp, layers = row
        model, batch = self.model, self.base.global_batch or 0
        one_by_one = schedule in ("1f1b", "interleaved")
        wrong = (
            batch % (dp * micro_batch)  # type: ignore[operator]
            or (pp == 1 and (schedule != "1f1b" or chunks != 1 or layers == BY_COST))
            or (chunks != 1 and not (one_by_one and self._deals_evenly(pp, chunks)))
            or (tp == 1 and (sp or (etp == 1 and cp == 1)))
            or (model.experts and tp > 1 and not sp)
        )
        hides = "overlap_passes" in self.given or (model.experts and ep != 1)
        return not wrong and (not overlap or bool(hides))

    def _deals_evenly(self, pp: int, chunks: object) -> bool:
        """Whether the parts of a pipeline of several chunks are alike; of numbers that the user
        chose, any will do."""
        parts = pp * chunks  # type: ignore[operator]
        return "virtual_stages" in self.given or (
            parts <= self.model.layers and even(self.model.layers, parts)
        )

    def _frame(
        self,
        base: Parallelism,
        tp: object,
        cp: object,
        pp: object,
        dp: int,
        row: Sequence[object],
    ) -> Parallelism | None:
        """A layout without what it recomputes; none where dealing layers by cost gives the same
        division as dealing them evenly."""
        named = dict(zip(FRAME, (tp, cp, pp, *row), strict=True))
        if named["virtual_stages"] != 1 and named["schedule"] == "1f1b":
            named["schedule"] = "interleaved"
        if named["layers_per_stage"] == BY_COST:
            parts: int = pp * named["virtual_stages"]  # type: ignore[operator]
            if parts not in self._by_cost:
                counts = split_by_cost(self.model, parts)
                usual = counts == split(self.model.layers, parts)
                self._by_cost[parts] = None if usual else shortened(counts)
            if self._by_cost[parts] is None:
                return None
            named["layers_per_stage"] = self._by_cost[parts]
        exchange = base.cp_comm_type
        if cp != 1 and exchange is None:
            exchange = "p2p" if base.attention == "flash" else "all_gather"
        return changed(base, dp=dp, cp_comm_type=exchange, **named)

    def _groups(self, frame: Parallelism) -> Iterator[LayoutGroup]:
        """The frame with each recomputation, and the kinds of ZeRO that go with it."""
        for (recompute, modules), counts in self._repeated(frame):
            par = changed(
                frame,
                recompute=recompute,
                recompute_modules=modules,
                recompute_layers=counts[0],
            )
            if self.framework is None:
                key = self._valid_key(par)
                if key not in self._valid:
                    self._valid[key] = self._fitting(par)
                if self._valid[key]:
                    yield LayoutGroup(par, self._valid[key], counts)
                continue
            # A framework may have layers do something else with another ZeRO stage.
            blocks: dict[Hashable, list[Shard]] = {}
            for shard in self._fitting(par):
                blocks.setdefault(block_key(self._decided(par, shard)), []).append(shard)
            yield from (LayoutGroup(par, tuple(each), counts) for each in blocks.values())

    def _repeated(
        self, frame: Parallelism
    ) -> Iterator[tuple[tuple[object, object], tuple[int | None, ...]]]:
        """Kinds of recomputation with modules, and numbers of layers that are in one group."""
        numbers = self.axes["recompute_layers"]
        most = max(laid_out(Setting(self.model, frame)).layers)
        # All layers of each part are the same as no number.
        least = most if None in numbers else most + 1
        counted = sorted(n for n in numbers if isinstance(n, int) and n < least)
        for recompute, modules in product(*(self.axes[name] for name in REPEATED[:2])):
            if recompute == "full" and counted and not modules:
                yield (recompute, modules), tuple(counted)
            if (None in numbers or recompute != "full") and not (
                modules and recompute in ("full", "ops")
            ):
                yield (recompute, modules), (None,)

    def _shards(self, par: Parallelism) -> list[Shard]:
        """Kinds of ZeRO; where nothing is replicated they all do the same. By default, a smaller
        group of ranks is that of a node."""
        wanted: tuple[int, ...] = self.axes["zero"]  # type: ignore[assignment]
        zeros = wanted if par.copies > 1 or "zero" in self.given else (0,)
        every: tuple[int | None, ...] = self.axes["zero_group"]  # type: ignore[assignment]
        # All ranks are the same as no number.
        most = par.copies if None in every else par.copies + 1
        shared = [
            n
            for n in every
            if n is None or (n < most and ("zero_group" in self.given or n * par.tp == self.node))
        ]
        return [(zero, n) for zero in zeros for n in (shared if zero else (None,))]

    def _fitting(self, par: Parallelism) -> tuple[Shard, ...]:
        """Kinds of ZeRO that go with the frame, its recomputation and what its framework decides.
        Raises `InputError` for behaviour that no bound knows."""
        found = []
        for shard in self._shards(par):
            decided = self._decided(par, shard)
            if self.framework is not None or self.software:
                _refuse(decided, self.axes["pp"] != (1,))
            if not combination_faults(self.model, decided):
                found.append(shard)
        return tuple(found)

    def _valid_key(self, par: Parallelism) -> Hashable:
        """All that decides which kinds of ZeRO go with a frame that is a layout without them."""
        return (
            par.tp,
            par.cp,
            par.ep,
            par.copies,
            par.recompute,
            par.recompute_modules,
            par.recompute_layers is None,
            par.overlap_passes,
            par.schedule,
            par.folded > 1,
            *(getattr(par, name) for name in self._more),
        )

    def _data(self, par: Parallelism, shards: tuple[Shard, ...]) -> tuple[int, int]:
        """Choices of data parallelism next to each other: the first, and one past the last."""
        few = shards if self.framework else shards[:1]
        key = tuple(self.parts.data_key(self._decided(par, each)) for each in few), shards
        if key not in self._sets:
            made = [self.parts.data(self._decided(par, shard)) for shard in shards]
            self._sets[key] = made[0], made[-1] + 1
        return self._sets[key]


def space_of(
    job: Job, target: Platform, clock: Clock, like: LayoutSpace | None = None
) -> LayoutSpace:
    """The space of a job on a machine, without layouts so far. What they have in common with those
    of `like`, that of the same job on another machine, is shared."""
    shape, count, given = job.shape, target.npus, job.layout
    behaviour = job.framework_set or {}
    own = {"global_batch": job.global_batch, "seq": job.seq, "framework_set": behaviour}
    base = filled_in(shape, job.model.name, own)
    dims = target.describe()["fabric"].get("dims")
    if dims is None:
        message = "is a graph of switches, and layouts are searched on networks with dimensions"
        raise InputError([Problem(target.name, "topology", message, "such as dgx-h100-16n")])
    node = dims[0]["size"]
    flash = base.attention == "flash" and given.get("attention", ("flash",)) == ("flash",)
    axes = {**defaults(shape, count, node, flash), **{k: tuple(v) for k, v in given.items()}}
    names = several(given)
    one = {name: values[0] for name, values in axes.items() if name not in names}
    found = LayoutSpace(
        shape,
        Parts(shape, clock, None if like is None else like.parts),
        changed(base, **one),
        axes,
        count,
        frozenset(given),
        None if job.framework is None else load_framework(job.framework),
        behaviour,
        several=names,
        node=node,
    )
    if like is not None and (like.ranks, like.axes) == (count, axes):
        found.groups = like.groups
    return found


def several(layout: Mapping[str, Sequence[object]]) -> tuple[str, ...]:
    """Options that may differ from layout to layout where a user chose these values."""
    more = (name for name, values in layout.items() if name not in SEVERAL and len(values) > 1)
    return (*SEVERAL, *more)


def _refuse(par: Parallelism, piped: bool) -> None:
    """Refuses behaviour of a framework that no bound knows; `piped` if layouts have pipelines."""
    allowed = "--layout zero=..., another framework, or armillary sweep"
    for name in _UNBOUND:
        value = getattr(par, name)
        if value and not (name == "bucket_mb" and par.zero > 1):
            said = f"{name} {value} with ZeRO {par.zero}: no bound knows what it changes"
            raise InputError([Problem("plan", "framework", said, allowed)])
    if par.regather != "all" and par.zero == 3:
        said = f"regather {par.regather} with ZeRO 3: no bound knows what it changes"
        raise InputError([Problem("plan", "framework", said, allowed)])
    if piped and not par.overlap_p2p:
        said = "overlap_p2p False with pipelines: no bound knows what it changes"
        allowed = "--layout pp=1, another framework, or armillary sweep"
        raise InputError([Problem("plan", "framework", said, allowed)])
