"""Changes of a model's workload that are tried to find what would help, each with the options that
it gives.

A smaller bubble: more virtual stages, more micro-batches, another schedule, fewer stages. Larger
kernels, less that is recomputed, less communication. Where a run lacks memory: what needs less.
Each change holds every rule of the options, and fits the memory of an NPU by the count of its
parts. What a training framework decides is not changed, for a job cannot choose it alone. Not here:
changes of the platform (`changes.py`), simulating them (`whatif.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import log2
from typing import Any

from ..errors import InputError
from ..estimate import bounds
from ..model.decoder import Decoder
from ..model.decoder_reader import decoder
from ..model.files import Model, load_model
from ..platform import Platform
from ..report.quantity import size
from ..schema import Report
from ..step_parts import PARTS
from ..units import counted
from ..workload import needed_memory
from ..workload.decoder_plan import operations
from ..workload.families import DECODERS
from ..workload.parallelism import Parallelism
from ..workload.parallelism_reader import parallelism
from ..workload.placement import even, layout_of
from ..workload.schedule import bubble_share
from ..workload.setting import Setting
from .changes import Change

MOST = 16
"""Changes of the workload at most."""
_MEANINGFUL = 0.03
"""Share of a step from which a bubble, communication or waiting is worth a change."""
_SMALL = 0.5
"""Share of their peak below which kernels count as small."""
_CHUNKS = 4
"""Numbers of virtual stages that are tried, at most."""
_LARGEST = 20_000_000
"""Operations and messages to be simulated up to which a larger batch is tried."""
_THINNEST = 2
"""Layers of a part of the pipeline below which messages weigh more than the bubble."""
_TOGETHER = 3
"""Options that are tried together to make a run fit, at most."""
_ROWS = 3
"""Rows of such options that are simulated, at most."""
_LESS_RECOMPUTED = {"full": ("none", "selective"), "selective": ("none",), "ops": ("none",)}
_MORE_RECOMPUTED = {"none": ("selective", "full"), "selective": ("full",), "ops": ("full",)}


@dataclass(frozen=True)
class Job:
    """The model, the options and the platform of a run, and how its step spends its time."""

    model: Model
    shape: Decoder
    given: Mapping[str, Any]
    par: Parallelism
    platform: Platform | None
    report: Report

    def changed(self, options: Mapping[str, Any]) -> tuple[dict[str, Any], Parallelism] | None:
        """All options to give, so that the batch stays where they don't name it, and what they come
        to; nothing where they break a rule."""
        batch = options.get("global_batch", self.par.global_batch)
        try:
            par = self._read(options)
            if par.global_batch != batch:
                options = {**options, "global_batch": batch}
                par = self._read(options)
        except InputError:
            return None
        return (dict(options), par) if par.world == self.par.world else None

    def _read(self, options: Mapping[str, Any]) -> Parallelism:
        return parallelism(self.shape, self.model.name, {**self.given, **options})

    def needed(self, options: Mapping[str, Any]) -> int:
        """Bytes of the NPU that needs most with these options."""
        return needed_memory(self.model, **{**self.given, **options}) or 0

    def fits(self, options: Mapping[str, Any]) -> str | None:
        """The answer for the memory of an NPU with these options."""
        return self.platform.fits(self.needed(options)) if self.platform else None

    @property
    def lacking(self) -> bool:
        """Whether the run itself does not fit, or may not."""
        return self.report.get("fits") in ("near", "no")

    def too_large(self, options: Mapping[str, Any]) -> str:
        """A sentence about options that do not fit."""
        capacity = self.report["config"]["platform"]["npu"]["memory_capacity_bytes"]
        return f"an NPU would need {size(self.needed(options))} and has {size(capacity)}"

    def bubble(self, par: Parallelism) -> float:
        """Idle share of a step by the formula of the schedule."""
        count, chunks = par.micro_batches, par.virtual_stages
        return bubble_share(par.schedule, par.pp, count, chunks, par.overlap_passes)

    def mean(self, *fields: str) -> float:
        """Share of the step that the mean NPU spends on these parts."""
        rows: list[Any] = list(self.report["classes"])
        spent = float(sum(row[field] * row["count"] for row in rows for field in fields))
        return spent / self.report["step_time_ns"] / int(sum(row["count"] for row in rows))


@dataclass(frozen=True)
class _Idea:
    """Options that may help, in words, and the share of the step that they may gain without the
    bubble's change."""

    what: str
    options: Mapping[str, Any]
    gain: float = 0.0


def simulated(report: Report) -> float:
    """Operations and messages that a run simulates: those of one rank of each class."""
    counts, classes = report["counts"], max(report["symmetry"]["classes"], 1)
    return (counts["operations"] + counts["transfers"]) * classes / max(report["ranks"], 1)


def applying(report: Report) -> tuple[list[Change], list[str]]:
    """The changes that can be simulated, the most promising of each kind first, and the reasons
    why others can't.

    The same for the same report.
    """
    config = report["config"]["workload"]
    if not config.get("model"):
        pipelined = (config.get("summary") or {}).get("bubble", 0.0) >= _MEANINGFUL
        reason = "options of the workload: its report does not name the model it was made of"
        return [], [reason] * pipelined
    job = _job(report)
    if job is None or not report["step_time_ns"]:
        return [], []
    found = [*_mending(job)] if job.lacking else []
    reasons = [] if found or not job.lacking else ["no options that are tried make the run fit"]
    for idea in _ideas(job):
        _add(job, idea, found, reasons)
    if len(found) > MOST:
        reasons.append(
            f"{len(found) - MOST} more changes of the workload: at most {MOST} are tried"
        )
    return _in_turns(found)[:MOST], reasons


def _job(report: Report) -> Job | None:
    """The job of a report; nothing where its family has none of these options, or its model is
    gone."""
    made, file = report["config"]["workload"]["model"], report["config"].get("platform_file")
    try:
        model = load_model(made["name"])
        if model.family not in DECODERS:
            return None
        shape = decoder(model)
        par = parallelism(shape, model.name, made["options"])
        platform = None if file is None else Platform.parse(file, "config.platform_file")
    except InputError:
        return None
    return Job(model, shape, made["options"], par, platform, report)


def _add(job: Job, idea: _Idea, found: list[Change], reasons: list[str]) -> None:
    """Keeps an idea that holds all rules, may gain something and fits; of one that lacks memory
    alone, the reason."""
    changed = job.changed(idea.options)
    if changed is None:
        return
    options, par = changed
    now, then = job.bubble(job.par), job.bubble(par)
    gain = 1.0 - (1.0 - idea.gain) * (1.0 - now) / (1.0 - then)
    if gain <= 0 or any(options == change.options for change in found):
        return
    fits, lacking = job.fits(options), job.lacking
    reach = gain * job.report["step_time_ns"]
    change = Change(idea.what, {}, False, reach, options, fits, lacking and fits == "yes")
    if fits == "no" and not lacking:
        said = f"{change.label}: {job.too_large(options)}"
        reasons += [said] if said not in reasons else []
    elif fits == "yes" or not lacking:
        found.append(change)


def _in_turns(found: list[Change]) -> list[Change]:
    """Changes that make a run fit first; then one of each kind in turn, kinds that may gain most
    first. Those that may not fit come last."""
    kinds: dict[str, list[Change]] = {}
    for change in found:
        if not change.mends and change.fits != "near":
            kinds.setdefault(next(iter(change.options)), []).append(change)
    ranked = sorted(kinds.values(), key=lambda kind: -kind[0].reach_ns)
    most = max(map(len, ranked), default=0)
    turns = [kind[at] for at in range(most) for kind in ranked if at < len(kind)]
    mending = [change for change in found if change.mends]
    return mending + turns + [each for each in found if each.fits == "near"]


def _ideas(job: Job) -> Iterator[_Idea]:
    if job.bubble(job.par) >= _MEANINGFUL:
        yield from _schedules(job)
        yield from _micro_batches(job)
        yield from _moved(job, "pp", "dp")
    yield from _less_recomputed(job)
    exposed = job.mean(*(part.field for part in PARTS if part.bound.name == "communication"))
    if exposed >= _MEANINGFUL:
        yield from _less_communication(job, exposed)
    yield from _larger_kernels(job)


def _schedules(job: Job) -> Iterator[_Idea]:
    """More virtual stages, and a schedule that puts weight gradients off."""
    par = job.par
    for chunks in _chunks(job):
        what = f"{chunks} virtual stages instead of {par.virtual_stages}"
        yield _Idea(what, {"virtual_stages": chunks, **_interleaving(par)})
    if par.schedule in ("gpipe", "1f1b"):
        what = f"schedule zb-h1 instead of {par.schedule}"
        yield _Idea(what, {"schedule": "zb-h1"})


def _chunks(job: Job) -> list[int]:
    """Numbers of virtual stages that divide the layers, next to that with parts of a few layers
    each."""
    par, layers = job.par, job.shape.layers
    if par.both_ways:
        return []
    also, numbers = _interleaving(par), range(par.virtual_stages + 1, (layers + 2) // par.pp + 1)
    whole = [each for each in numbers if even(layers, par.pp * each)]
    valid = [each for each in whole if job.changed({"virtual_stages": each, **also})]
    thick = [each for each in valid if layers >= _THINNEST * each * par.pp]
    best = max(thick or valid, default=1)
    return sorted(valid, key=lambda each: (abs(log2(each / best)), each))[:_CHUNKS]


def _interleaving(par: Parallelism) -> dict[str, str]:
    """The option that lets a schedule have virtual stages."""
    return {} if par.schedule in ("1f1b", "interleaved") else {"schedule": "1f1b"}


def _micro_batches(job: Job) -> Iterator[_Idea]:
    """More micro-batches: smaller ones, or a larger batch, if that does not take too long."""
    yield from (_of_size(job, job.par.micro_batch // 2**half) for half in (1, 2))
    yield from _batches(job, 0.0)


def _of_size(job: Job, samples: int) -> _Idea:
    what = f"micro-batches of {samples} instead of {job.par.micro_batch}"
    return _Idea(what, {"micro_batch": samples})


def _batches(job: Job, gain: float) -> Iterator[_Idea]:
    now, count = job.par.global_batch or 0, job.par.micro_batches
    for times in (2, 4):
        if times * simulated(job.report) > _LARGEST:
            return
        more = f"{times * count} micro-batches instead of {count}"
        what = f"a global batch of {times * now} instead of {now}, {more}"
        yield _Idea(what, {"global_batch": times * now}, gain)


def _moved(job: Job, less: str, more: str, gain: float = 0.0) -> Iterator[_Idea]:
    """Half of one degree and twice another one."""
    a, b = getattr(job.par, less), getattr(job.par, more)
    if a > 1 and a % 2 == 0:
        what = f"{less} {a // 2} and {more} {2 * b} instead of {less} {a} and {more} {b}"
        yield _Idea(what, {less: a // 2, more: 2 * b}, gain)


def _less_recomputed(job: Job) -> Iterator[_Idea]:
    par = job.par
    own = {"recompute_modules": ""} if par.modules else {}
    if own:
        what = "no module is recomputed by itself"
        yield _Idea(what, own, _repeated(job, own))
    if par.recompute_layers is not None:
        yield from _fewer_layers(job, par.recompute_layers)
        return
    for kind in _LESS_RECOMPUTED.get(par.recompute, ()):
        what = f"recompute {kind} instead of {par.recompute}"
        options = {"recompute": kind}
        yield _Idea(what, options, _repeated(job, options))


def _fewer_layers(job: Job, now: int) -> Iterator[_Idea]:
    """No layers of each part, or half of those that are recomputed now."""
    uniform = job.par.recompute_method == "uniform"
    most = max(layout_of(job.shape, job.par).layers) if uniform else now
    for count in sorted({0, most // 2} - {most}):
        options: dict[str, Any] = {"recompute_layers": count}
        if uniform:
            options["recompute_method"] = "block"
        what = f"{counted(count, 'layer')} of each part recomputed instead of {most}"
        yield _Idea(what, options, _repeated(job, options))


def _repeated(job: Job, options: Mapping[str, Any]) -> float:
    """Share of the step that goes to what these options would not compute again."""
    changed = job.changed(options)
    if changed is None:
        return 0.0
    now, then = _operations(job, job.par), _operations(job, changed[1])
    return job.mean("compute_ns") * (1.0 - then / now)


def _operations(job: Job, par: Parallelism) -> int:
    return operations(Setting(job.shape, par)).hardware


def _less_communication(job: Job, exposed: float) -> Iterator[_Idea]:
    """Less of it, or more work for each of its bytes; it rarely goes away."""
    half = exposed / 2
    if job.par.tp > 1 and not job.par.sp:
        yield _Idea("sequence parallelism", {"sp": True}, half)
    yield from _moved(job, "tp", "dp", half)
    if job.par.data > 1:
        yield from _batches(job, half)


def _larger_kernels(job: Job) -> Iterator[_Idea]:
    """Micro-batches of twice the size, where hosts launch too slowly or kernels are far from their
    peak."""
    waiting = job.mean(*(part.field for part in PARTS if part.bound.name == "hosts"))
    peak, computing = bounds.peak(job.report) / job.report["step_time_ns"], job.mean("compute_ns")
    slow = computing - peak
    small = 0 < peak < _SMALL * computing
    if waiting >= _MEANINGFUL or small:
        yield _of_size_twice(job, (waiting + (slow if small else 0.0)) / 2)


def _of_size_twice(job: Job, gain: float) -> _Idea:
    return replace(_of_size(job, 2 * job.par.micro_batch), gain=gain)


def _mending(job: Job) -> Iterator[Change]:
    """Changes that make a run fit: each single option that does, else the first combinations of two
    or three."""
    ideas = list(_savers(job))
    for together in range(1, _TOGETHER + 1):
        rows = (_mended(job, row) for row in combinations(ideas, together))
        found = list(islice(filter(None, rows), _ROWS if together > 1 else None))
        if found:
            yield from found
            return


def _mended(job: Job, ideas: Sequence[_Idea]) -> Change | None:
    """The change, if the run then fits; nothing for two values of an option."""
    options = {key: value for idea in ideas for key, value in idea.options.items()}
    if len(options) < sum(len(idea.options) for idea in ideas):
        return None
    changed = job.changed(options)
    if changed is None or job.fits(changed[0]) != "yes":
        return None
    what, step = " and ".join(idea.what for idea in ideas), job.report["step_time_ns"]
    return Change(what, {}, False, step, changed[0], "yes", mends=True)


def _savers(job: Job) -> Iterator[_Idea]:
    """Options that need less memory, in the order of what they usually cost."""
    par = job.par
    if par.schedule == "gpipe" and par.pp > 1:
        yield _Idea("schedule 1f1b instead of gpipe", {"schedule": "1f1b"})
    for level in range(par.zero + 1, 4) if par.copies > 1 else ():
        yield _Idea(f"ZeRO {level} instead of {par.zero}", {"zero": level})
    if par.tp > 1 and not par.sp:
        yield _Idea("sequence parallelism", {"sp": True})
    if par.micro_batch % 2 == 0:
        yield _of_size(job, par.micro_batch // 2)
    count, most = par.recompute_layers, max(layout_of(job.shape, par).layers)
    if count is not None and count < most and par.recompute_method == "block":
        what = f"{counted(most, 'layer')} of each part recomputed instead of {count}"
        yield _Idea(what, {"recompute_layers": most})
    for kind in _MORE_RECOMPUTED.get(par.recompute, ()):
        yield _Idea(f"recompute {kind} instead of {par.recompute}", {"recompute": kind})
    yield from _moved(job, "dp", "tp")
    if par.pp > 1:
        yield from _moved(job, "dp", "pp")


def likeliest(report: Report, most: int) -> list[Change]:
    """The changes of the workload that promise most and fit."""
    found, _ = applying(report)
    return [change for change in found if change.fits != "near"][:most]


def ordered(options: Iterable[Change], others: Iterable[Change]) -> list[Change]:
    """Changes of workload and platform in turn, so that a limit of time leaves some of both."""
    a, b = list(options), list(others)
    pairs = [each for pair in zip(a, b, strict=False) for each in pair]
    least = min(len(a), len(b))
    return pairs + a[least:] + b[least:]
