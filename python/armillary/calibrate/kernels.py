"""Rates that an NPU's kernels achieve, from measured matrix multiplications and memory bandwidth.

The model is the simulator's own (docs/models/compute.md): every kernel is run alone, without the
host's launch. Fitted are `efficiency.gemm`, `kernel_overhead`, `tiles.fill_depth` and
`tiles.load_cost`, in this order as far as there are two shapes for each, and one
`memory_efficiency` for all kinds that stream. The search and its intervals are those of the
libraries (`search`). Lookups and updates of embedding tables, and optimizers, have an efficiency of
their own where they were measured. Not here: reading (`kernel_tables`), the model
(`crates/device/src/compute`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .. import _core
from ..errors import InputError, Problem
from ..platform import Platform
from ..units import PPM, PS_PER_US
from .fit import FittedParameter
from .kernel_tables import Kernel
from .search import ParameterSearch, outliers
from .single_operation import ALONE, fitted

UNITS = {
    "V100": 80,
    "A100": 108,
    "H100": 132,
    "H200": 132,
    "B200": 148,
    "GB200": 148,
    "MI300X": 304,
    "MI325X": 304,
    "MI355X": 256,
}
"""Multiprocessors (AMD: compute units) of NPUs by the beginning of their name; the makers' data
sheets."""

_ALL = 0.995
"""A part that is as good as all."""
_NONE = 1e-4
"""Rounds to none."""
EFFICIENCY, START = "npu.compute.efficiency.gemm", "npu.compute.kernel_overhead"
BY_TYPE = "npu.compute.efficiency_by_type"
FILL, LOAD = "npu.compute.tiles.fill_depth", "npu.compute.tiles.load_cost"
MEMORY = "npu.compute.memory_efficiency"
_CALIBRATED = "; those that were calibrated, on this NPU"
STREAMS = ("other", "gemm", "convolution", "elementwise", "normalization", "optimizer")
"""Kinds of kernels that stream their tensors: those whose memory efficiency a bandwidth test
determines."""

OWN = ("embedding", "embedding_update", "optimizer")
"""Kinds with an efficiency of their own, if they were measured by themselves."""

_LIMITS = {FILL: 65536.0, LOAD: 1024.0}
"""Limits of a platform file."""
_BEGIN = {START: 3.0, FILL: 64.0, LOAD: 32.0}
"""Where the search begins with what the platform does not have: us, steps of k, elements."""


@dataclass(frozen=True, slots=True)
class KernelResidual:
    """One measured kernel, us."""

    kernel: Kernel
    given_us: float
    fitted_us: float
    outlier: bool


@dataclass(frozen=True, slots=True)
class KernelFit:
    """A platform's NPU after calibration."""

    platform: str
    parameters: tuple[FittedParameter, ...]
    residuals: tuple[KernelResidual, ...]
    settings: Mapping[str, object]
    """Fitted settings, as overrides of the platform."""
    open: tuple[str, ...]
    """Parameters that the measurements do not determine."""

    def error(self, which: Callable[[KernelResidual], float]) -> float:
        """Geometric mean error in percent of `which` (fitted or given us) against measured."""
        logs = [abs(math.log(which(r) / r.kernel.measured_us)) for r in self.residuals]
        return 100 * (math.exp(sum(logs) / len(logs)) - 1)


@dataclass(frozen=True)
class Bench:
    """Measured kernels on a platform."""

    kernels: tuple[Kernel, ...]
    platform: Platform
    units: int | None
    """Multiprocessors, where its multiplications go in tiles."""

    @property
    def measured(self) -> list[float]:
        """us, a kernel each."""
        return [kernel.measured_us for kernel in self.kernels]

    def times(self, values: Mapping[str, float]) -> list[float]:
        """us of each kernel alone, with parameters set to `values`."""
        settings = self.settings(values)
        key = repr(settings)
        if key not in self._known:
            core = self._npu.changed({**settings, **ALONE})._core
            self._known[key] = [max(ps / PS_PER_US, 1e-6) for _, ps in core.times(self._program)]
        return self._known[key]

    @cached_property
    def _known(self) -> dict[str, list[float]]:
        """Times by settings, which are rounded, so that a search meets many again."""
        return {}

    @cached_property
    def _narrow(self) -> list[str]:
        """Keys of the platform's own efficiencies of the element types that were measured."""
        widths = {kernel.shape[4] for kernel in self.kernels if kernel.shape is not None}
        own = self.platform.describe()["npu"]["compute_settings"]["efficiency_by_type_ppm"]
        measured = {"fp4": 0 in widths, "fp8": 1 in widths, "fp32": any(w >= 4 for w in widths)}
        return [f"{BY_TYPE}.{key}" for key, there in measured.items() if there and own[key]]

    def settings(self, values: Mapping[str, float]) -> dict[str, object]:
        """Parameters as overrides of the platform."""
        made: dict[str, object] = {}
        if EFFICIENCY in values:
            made[EFFICIENCY] = round(values[EFFICIENCY], 4)
            made |= dict.fromkeys(self._narrow, made[EFFICIENCY])
        if START in values:
            made[START] = f"{values[START]:.4f} us"
        if FILL in values:
            tiles = {
                "multiprocessors": self.units,
                "fill_depth": round(values[FILL]),
                "load_cost": round(values[LOAD]),
            }
            made["npu.compute.tiles"] = tiles
        if MEMORY in values:
            made |= {f"{MEMORY}.{kind}": round(values[MEMORY], 4) for kind in STREAMS}
        own = (f"{MEMORY}.{kind}" for kind in OWN)
        made |= {key: round(values[key], 4) for key in own if key in values}
        return made | self._origin

    @cached_property
    def _origin(self) -> dict[str, object]:
        """Origin of the other efficiencies, on a platform without measured steps."""
        said = self.platform.describe()["npu"]["compute_settings"].get("fitted_on")
        if said is None or said.endswith(_CALIBRATED):
            return {}
        return {"npu.compute.fitted_on": f"{said}{_CALIBRATED}"}

    @cached_property
    def _npu(self) -> Platform:
        """The platform without what these kernels do not use, since a search changes it often."""
        return self.platform.changed({"npu.kernels": None, "library": None})

    @cached_property
    def _program(self) -> _core.Program:
        program = _core.Program()
        for kernel in self.kernels:
            if kernel.shape is not None:
                batch, m, n, k, width = kernel.shape
                program.gemm("kernel", [], m=m, n=n, k=k, batch=batch, width=width)
            else:
                program.compute("kernel", [], operations=0, bytes=kernel.bytes, kernel=kernel.kind)
        return program


def calibrate_kernels(
    name: str, kernels: Sequence[Kernel], settings: Mapping[str, object] | None = None
) -> KernelFit:
    """Fits the NPU of the platform `name` (with `settings`) to measured kernels.

    Raises `InputError` where its compute is not a roofline, or has no peak for elements that were
    measured."""
    platform = Platform.load(name, settings)
    npu = platform.describe()["npu"]
    _check(name, npu, kernels)
    bench = Bench(tuple(kernels), platform, _units(npu))
    now = _now(npu)
    moving, left = _chosen(bench, now)
    return _fit(name, bench, moving, now, left)


def _fit(
    name: str, bench: Bench, moving: list[str], now: Mapping[str, float], left: list[str]
) -> KernelFit:
    home = {key: now[key] or _NONE for key in moving}
    begin = {key: now[key] or _BEGIN[key] for key in moving}
    if FILL in begin:
        begin.setdefault(LOAD, now[LOAD] or _NONE)
    search = ParameterSearch([bench], begin, _LIMITS)
    matter = [key for key in moving if search.matters(key)]
    kept, values = search.settle(matter, search.descend(matter), home)
    best = {
        key: value
        for key, value in values.items()
        if key in kept or (key in (FILL, LOAD) and _tiled(kept))
    }
    intervals = {key: search.interval(key, values, 1.005) for key in kept}
    made = tuple(
        fitted(
            key,
            "us" if key == START else "",
            now[key],
            best.get(key, now[key]),
            intervals.get(key),
        )
        for key in moving
    )
    before, after = bench.times({}), bench.times(best)
    logs = [math.log(ours / theirs) for ours, theirs in zip(after, bench.measured, strict=True)]
    residuals = tuple(map(KernelResidual, bench.kernels, before, after, outliers(logs)))
    left = [*_doubts(name, made), *left]
    return KernelFit(name, made, residuals, bench.settings(best), tuple(left))


def _tiled(keys: Sequence[str]) -> bool:
    return FILL in keys or LOAD in keys


def _doubts(name: str, made: Sequence[FittedParameter]) -> Iterator[str]:
    """Notes on parameters that keep their value, that are uncertain, and that reach everything the
    platform has."""
    same = [_short(each.key) for each in made if each.fitted == each.given]
    if same:
        yield (
            f"unchanged from {name}, since these kernels need no other values: {', '.join(same)}"
        )
    loose = [_short(each.key) for each in made if not each.found and each.fitted != each.given]
    if loose:
        yield (
            "changed, but these kernels determine only a combination of them and others: "
            f"{', '.join(loose)}"
        )
    for key, peak in (
        (EFFICIENCY, "npu.peak or npu.compute.peak_by_type"),
        (MEMORY, "npu.memory.bandwidth"),
    ):
        if any(each.key == key and each.fitted > _ALL for each in made):
            yield (
                f"{_short(key)} is at its limit: kernels were as fast as {peak}, or faster; is "
                "this the right NPU?"
            )


def _short(key: str) -> str:
    return key.removeprefix("npu.compute.")


def _now(npu: Mapping[str, Any]) -> dict[str, float]:
    """Present values of the platform; 0 where it has none."""
    compute = npu["compute_settings"]
    tiles = compute["tiles"] or {"fill_depth": 0, "load_cost": 0}
    return {
        EFFICIENCY: compute["efficiency_ppm"]["gemm"] / PPM,
        START: compute["kernel_overhead_ps"] / PS_PER_US,
        FILL: float(tiles["fill_depth"]),
        LOAD: float(tiles["load_cost"]),
        MEMORY: compute["memory_efficiency_ppm"]["elementwise"] / PPM,
        **{f"{MEMORY}.{kind}": compute["memory_efficiency_ppm"][kind] / PPM for kind in OWN},
    }


def _units(npu: Mapping[str, Any]) -> int | None:
    if tiles := npu["compute_settings"]["tiles"]:
        return int(tiles["multiprocessors"])
    name = str(npu["name"])
    return next((units for start, units in UNITS.items() if name.startswith(start)), None)


def _chosen(bench: Bench, now: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """The parameters that there are enough kernels for, and why others stay."""
    return [*_of_shapes(bench), *_of_streams(bench)], list(_open(bench, now))


def _of_shapes(bench: Bench) -> list[str]:
    """Two shapes determine a parameter."""
    shapes = sum(kernel.shape is not None for kernel in bench.kernels)
    order = (EFFICIENCY, START, FILL, LOAD) if bench.units else (EFFICIENCY, START)
    return list(order[: max(1, shapes // 2)] if shapes else ())


def _of_streams(bench: Bench) -> list[str]:
    kinds = {kernel.kind for kernel in bench.kernels if kernel.shape is None}
    own = [f"{MEMORY}.{kind}" for kind in OWN if kind in kinds]
    return [MEMORY, *own] if kinds - set(OWN) else own


def _open(bench: Bench, now: Mapping[str, float]) -> Iterator[str]:
    shapes = sum(kernel.shape is not None for kernel in bench.kernels)
    kept = [
        key for key in (EFFICIENCY, START, FILL, LOAD) if shapes and key not in _of_shapes(bench)
    ]
    if kept and bench.units:
        yield (
            f"{shapes} shapes determine {len(_of_shapes(bench))} parameters; unchanged: "
            f"{', '.join(map(_short, kept))}"
        )
    if shapes and not bench.units:
        yield (
            f"no tiles: how many multiprocessors {bench.platform.describe()['npu']['name']} has is "
            "unknown; --set npu.compute.tiles.multiprocessors=..."
        )
    if not shapes:
        yield "no matrix multiplication was measured: their efficiency is unchanged"
    elif not _of_streams(bench):
        yield "no memory bandwidth was measured: memory_efficiency is unchanged"


def _check(name: str, npu: Mapping[str, Any], kernels: Sequence[Kernel]) -> None:
    problems = []
    if npu["compute"] != "roofline":
        problems.append(
            Problem(
                name, "npu.compute", f"{npu['compute']} has nothing to fit to kernels", "roofline"
            )
        )
        raise InputError(problems)
    if any(kernel.shape is None for kernel in kernels) and not npu["memory_bandwidth"]:
        problems.append(
            Problem(name, "npu.memory.bandwidth", "is not given", "a bandwidth, such as 1555 GB/s")
        )
    widths = {kernel.shape[4] for kernel in kernels if kernel.shape is not None}
    rates = npu["compute_settings"]["peak_by_type_flops"]
    for key, wanted in (("fp8", 1 in widths), ("fp32", any(width >= 4 for width in widths))):
        if wanted and not rates[key]:
            message = (
                f"is not given, but elements of {8 if key == 'fp8' else 32} bits were measured"
            )
            problems.append(
                Problem(
                    name,
                    f"npu.compute.peak_by_type.{key}",
                    message,
                    f"--set npu.compute.peak_by_type.{key}=RATE",
                )
            )
    if problems:
        raise InputError(problems)
