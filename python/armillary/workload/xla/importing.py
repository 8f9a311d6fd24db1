"""A module of XLA to a workload of all devices of its program: the main path.

text or protobuf -> Module -> steps of one rank -> programs of all ranks -> workload"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...errors import InputError, Problem
from ...units import counted
from ..workload import Workload
from . import proto, text
from .covered import ModuleCoverage
from .fusing import SAID as FUSED
from .fusing import fused
from .module import Allocations, DamagedError, Module
from .programs import workload
from .steps import Steps, read

ALLOWED = "HLO of XLA as text or protobuf, after the SPMD partitioner: XLA_FLAGS=--xla_dump_to=DIR"
COMBINED = 30 * 2**20
"""Bytes of a combined collective: the defaults of XLA's flags
`xla_gpu_all_reduce_combine_threshold_bytes` and so on (xla/debug_options_flags.cc)."""
BUFFERS = b"BufferAssignment:"
_ALLOCATION = re.compile(r"^allocation \d+: size (\d{1,19})([^\n]*)$", re.MULTILINE)
_MOST_BYTES = 2**60
_MOST_MB = 1_000_000


@dataclass(frozen=True)
class Options:
    """Options of the import of a module."""

    entry: str | None = None
    """The computation to take in place of the one that runs."""
    trips: Mapping[str, int] = field(default_factory=dict)
    """Runs of loops, by the name of the instruction, where the module does not say."""
    fuse: bool = False
    """Fuse kernels as a GPU would, and let each wait for its operands only."""
    combine_mb: float | None = None
    """With `fuse`: the size up to which collectives are combined, in MB; the GPU's by default."""


@dataclass(frozen=True)
class ImportedModule:
    """A workload, what it covers of the module, and what to know about it."""

    workload: Workload
    covered: ModuleCoverage
    notes: tuple[str, ...]


def is_module(data: bytes) -> bool:
    """Whether a file looks like a module of XLA, as text or as protobuf."""
    return text.is_module(data) or proto.is_module(data)


def is_buffers(data: bytes) -> bool:
    """Whether a file looks like the assignment of buffers that XLA dumps as text."""
    return data[:64].lstrip().startswith(BUFFERS)


def import_hlo(
    name: str, data: bytes, options: Options, buffers: tuple[str, bytes] | None = None
) -> ImportedModule:
    """The workload of a module; `buffers` is the text of its assignment of buffers. Raises
    `InputError`."""
    try:
        module = read_module(data)
        if buffers is not None:
            module.memory = allocations(*buffers)
        if module.memory is not None and module.memory.total > _MOST_BYTES:
            raise DamagedError("buffers", "sets aside more than an exabyte", ALLOWED)
        entry = _entry(module, options.entry)
        found = _steps(module, entry, options)
        _check_split(module, entry, found)
        return _imported(name, module, entry, found, options.fuse)
    except DamagedError as error:
        allowed = error.allowed or ALLOWED
        raise InputError([Problem(name, error.where, error.said, allowed)]) from None


def _steps(module: Module, entry: int, options: Options) -> Steps:
    """The steps of a rank. Raises `DamagedError`."""
    size = options.combine_mb
    if size is not None and not (options.fuse and 0 <= size <= _MOST_MB):
        allowed = f"0 to {_MOST_MB:,} MB, with --fuse"
        raise DamagedError(f"--combine-mb {size}", "has no effect or is out of range", allowed)
    if not options.fuse:
        return read(module, entry, options.trips)
    loose = replace(module, scheduled=False)
    most = COMBINED if size is None else round(size * 1e6)
    found = fused(read(loose, entry, options.trips, flows=True), most)
    found.warnings[FUSED] = 1
    return found


def read_module(data: bytes) -> Module:
    """The module in a file. Raises `DamagedError`."""
    if text.is_module(data):
        module = text.read(data.decode("utf-8", "replace"))
    else:
        module = proto.read(data)
    if not module.computations:
        raise DamagedError("the file", "has no computation")
    return module


def _entry(module: Module, wanted: str | None) -> int:
    """Place of the computation to take."""
    if wanted is not None:
        place = module.named(wanted.removeprefix("%"))
        if place is None:
            names = ", ".join(each.name for each in module.computations[-4:])
            raise DamagedError(f"--entry {wanted}", "is not a computation of the module", names)
        return place
    if module.entry is None:
        said = "has no computation marked ENTRY"
        if module.cut:
            said = f"ends inside the computation {module.cut}, before its ENTRY"
        allowed = "a whole module, or --entry NAME of a computation, such as the body of a loop"
        raise DamagedError("the file", said, allowed)
    return module.entry


def _check_split(module: Module, entry: int, found: Steps) -> None:
    """Raises `DamagedError` for a module that was not yet split over its devices: it has none of
    the collectives, and not the name that the partitioner gives."""
    name = module.computations[entry].name
    whole = entry == module.entry and module.partitions > 1 and "_spmd" not in name
    if whole and not found.exchanged:
        said = f"has {module.partitions:,} partitions, but no collective, and {name} is not split"
        raise DamagedError("the module", said, "the module after the SPMD partitioner")


def allocations(name: str, data: bytes) -> Allocations:
    """Bytes of an assignment of buffers as text. Raises `InputError`."""
    sizes = {"parameters": 0, "constants": 0, "rest": 0}
    count = 0
    for match in _ALLOCATION.finditer(data.decode("utf-8", "replace")):
        size, said = int(match[1]), match[2]
        count += 1
        if "thread-local" in said:
            continue
        key = "parameters" if ", parameter " in said else "rest"
        sizes["constants" if ", constant" in said else key] += size
    if not count:
        allowed = "*-buffer-assignment.txt, as XLA dumps it"
        raise InputError([Problem(name, "", "has no allocation", allowed)])
    return Allocations(**sizes)


def _imported(name: str, module: Module, entry: int, found: Steps, fuse: bool) -> ImportedModule:
    warnings = _warnings(module, found, fuse)
    covered = ModuleCoverage(
        module.name,
        module.computations[entry].name,
        module.replicas,
        module.partitions,
        module.scheduled,
        found.instructions,
        found.computed,
        found.exchanged,
        found.left_out,
        module.memory.total if module.memory is not None else None,
    )
    notes = (*_notes(module, entry), *warnings)
    made = workload(name, found, module.devices, module.memory, notes, warnings)
    return ImportedModule(made, covered, notes)


def _notes(module: Module, entry: int) -> list[str]:
    order = (
        "kernels run in the order of the schedule"
        if module.scheduled
        else "the module is not scheduled: kernels wait for their operands only"
    )
    found = [f"operations and bytes follow from shapes; the platform times them; {order}"]
    if module.memory is not None:
        found.append(
            f"the compiler set aside {module.memory.total / 1e9:,.3f} GB on each rank, of these "
            f"{module.memory.parameters / 1e9:,.3f} GB of parameters"
        )
    if entry != module.entry:
        found.append(f"only the computation {module.computations[entry].name} is in it")
    return found


def _warnings(module: Module, found: Steps, fuse: bool) -> list[str]:
    """Assumptions, each once."""
    warnings = [
        f"{said} ({counted(count, 'time')})" if count > 1 else said
        for said, count in found.warnings.items()
    ]
    has_fusions = any(
        each.opcode == "fusion"
        for computation in module.computations
        for each in computation.instructions
    )
    loose = found.computed["other kernels"].count if "other kernels" in found.computed else 0
    if not fuse and not has_fusions and loose > 1:
        warnings.append(
            "the module has no fusions: each instruction counts as a kernel that reads and writes "
            "memory, which takes longer than the compiled module"
        )
    return warnings
