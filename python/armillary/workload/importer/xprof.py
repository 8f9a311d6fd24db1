"""Profiles of XLA (JAX, TensorFlow, PyTorch/XLA) to the traces of ranks.

Here: which device is which rank, calls of hosts, and what was left out. Not here: the file
(`xspace.py`), operations of a device (`xprof_ops.py`), modules (`xprof_hlo.py`), which steps there
are (`xprof_steps.py`). The result is what
a Kineto trace gives, so all that follows is shared.

- A rank is a device that ran operations: hosts in the order of their names, and the devices of a
  host by number. A GPU has calls of its host that launch its kernels. A TPU and a CPU have none,
  and what an operation waited for follows from order alone (`device_line.py`).

Sources: xplane_schema.cc and group_events.cc of openxla/xla, and profiles that JAX 0.10 wrote."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from ... import machine
from ...errors import InputError, Problem
from ...natural_order import natural_order
from ...units import PS_PER_MS, counted
from .. import xla
from . import kineto, xprof_ops, xprof_steps, xspace
from .kineto import LeftOut, RuntimeCall, Thread, Trace
from .reading import Event, Recording, XlaDocument
from .xprof_hlo import Programs
from .xprof_ops import MODULES, OPS, Device, Host, Work
from .xspace import ENVIRONMENT, METADATA, Plane

STEP = "step of XLA's profiler, such as jax.profiler.StepTraceAnnotation"
ALLOWED = "a profile with devices: jax.profiler.trace(DIR) around steps on GPUs or TPUs"
_DEVICE = re.compile(r"/device:(GPU|TPU):(\d{1,6})(?: .*)?")
_CORES = re.compile(r"/device:TPU:\d+ (?:SparseCore|#)")
_CALL = re.compile(r"(?:cuda|hip)[A-Z]|cu[A-Z][a-z]")
_WAITS = re.compile(r"StreamWaitEvent|EventRecord|Synchronize")
_UNUSED = ("$", "ThreadpoolListener", "end: ")
"""First letters of events of hosts that say nothing: lines of Python, marks of queues."""
_BYTES = 1_200
"""Bytes that each kept event takes at most."""
_NOTHING = Event()


def traces(
    recordings: Sequence[Recording], modules: Sequence[tuple[str, bytes]]
) -> tuple[list[Trace], list[str]]:
    """A trace for each device of the profiles of one run, and notes; `modules` are those that are
    given next to them. Raises `InputError` where a profile has no operation of a device."""
    try:
        return _Run(recordings, modules).run()
    except xla.DamagedError as error:
        raise InputError([_damaged(recordings[0].file, error)]) from None


class _Run:
    def __init__(
        self, recordings: Sequence[Recording], modules: Sequence[tuple[str, bytes]]
    ) -> None:
        self.programs = Programs()
        self.notes: list[str] = []
        free = machine.available()
        self.left = free // _BYTES if free is not None else None
        for name, data in modules:
            self.programs.give(name, data)
        self.recordings = recordings

    def run(self) -> tuple[list[Trace], list[str]]:
        hosts, devices = self._read()
        world = self._world(devices)
        works = [self._work(rank, device) for rank, device in enumerate(devices)]
        self._about(hosts, devices, works)
        steps, note = xprof_steps.marked(hosts, devices)
        self.notes += [note] if note else []
        found = []
        for rank, (device, work) in enumerate(zip(devices, works, strict=True)):
            trace = _trace(hosts[device.host], device, work)
            trace.ops = steps[rank]
            trace.pids[str(device.host)] += 1
            if len(devices) > 1 or world > 1:
                trace.distributed = {"rank": rank, "world_size": world}
            kineto.require_one_run(trace)
            found.append(trace)
        waited = 0
        for number in range(len(hosts)):
            waited += xprof_steps.end_waits([
                trace
                for trace, device in zip(found, devices, strict=True)
                if device.host == number and trace.has_launches
            ])  # fmt: skip
        if waited:
            self.notes.append(
                f"JAX does not record waits for results: at the end of {counted(waited, 'step')}, "
                "after the last launch, hosts are taken to wait for their devices"
            )
        return found, self.notes

    def _read(self) -> tuple[list[Host], list[Device]]:
        hosts: list[Host] = []
        problems: list[Problem] = []
        for recording in self.recordings:
            assert isinstance(recording.document, XlaDocument)
            try:
                data = recording.document.data
                space = xspace.read(data) if isinstance(data, bytes) else xspace.from_trace(data)
                self.programs.embed(space)
                hosts.append(Host(recording.file, space))
            except xla.DamagedError as error:
                problems.append(_damaged(recording.file, error))
        if problems:
            raise InputError(problems)
        hosts.sort(key=lambda host: (natural_order(host.space.host), natural_order(host.file)))
        self._require_different(hosts)
        devices: list[Device] = []
        for number, host in enumerate(hosts):
            try:
                found = self._devices(number, host)
            except xla.DamagedError as error:
                problems.append(_damaged(host.file, error))
                continue
            if not found:
                problems.append(_nothing(host))
            devices += found
        if problems:
            raise InputError(problems)
        kinds = sorted({device.kind for device in devices})
        if len(kinds) > 1:
            said = f"have operations of several kinds of devices: {', '.join(kinds)}"
            raise InputError([Problem(hosts[0].file, "", said, "one kind in a run")])
        return hosts, devices

    def _require_different(self, hosts: Sequence[Host]) -> None:
        """Raises `InputError` for two profiles of one host that began at the same time."""
        known: dict[tuple[str, int], str] = {}
        for host in hosts:
            key = (host.space.host, host.space.started)
            if all(key) and key in known:
                said = f"is the profile of the same host as {known[key]}"
                raise InputError([Problem(host.file, "", said, "one profile for each host")])
            known[key] = host.file

    def _keep(self, host: Host) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            said = "has more events than this machine's memory can hold"
            way = f"a profile of fewer steps, or {machine.VARIABLE} set to the memory it may take"
            raise InputError([Problem(host.file, "", said, way)])

    def _devices(self, number: int, host: Host) -> list[Device]:
        """The devices of a host that ran operations, by number."""
        found = []
        for plane in host.space.planes:
            match = _DEVICE.fullmatch(plane.name)
            if match is not None and not _CORES.match(plane.name):
                device = Device(number, match[1], int(match[2]), plane)
                self._lines(host, device)
                if any(device.lines.values()):
                    found.append(device)
        with_gpus = any(device.kind == "GPU" for device in found)
        for plane in host.space.planes:
            if plane.name.startswith("/host:") and plane.name != METADATA:
                self._threads(host, plane, calls=with_gpus, work=not found)
        for place, lines in sorted(host.cpu.items()):
            found.append(Device(number, "CPU", place, Plane("/host:CPU"), lines))
        twice = [key for key, count in Counter((d.kind, d.number) for d in found).items()
                 if count > 1]  # fmt: skip
        if twice:
            said = f"has two planes of {twice[0][0]} {twice[0][1]}"
            raise xla.DamagedError("planes", said, "one plane for each device")
        return sorted(found, key=lambda device: (device.kind, device.number))

    def _lines(self, host: Host, device: Device) -> None:
        """The operations of a device, and what else its plane has."""
        plane = device.plane
        is_gpu = device.kind == "GPU"
        read = xprof_ops.gpu_lines(plane) if is_gpu else [
            line for line in plane.lines if line.name == OPS
        ]  # fmt: skip
        for place, line in enumerate(read):
            name = line.name if is_gpu else f"{OPS} {place}" if place else OPS
            if is_gpu and (match := xprof_ops.STREAM.match(line.name)):
                name = match[1]
            spans = device.lines.setdefault(name, [])
            for span in line.events():
                self._keep(host)
                spans.append(span)
            host.untimed += line.untimed
            spans.sort(key=lambda span: (span.start, span.end))
        if not is_gpu:
            device.runs = xprof_ops.module_runs(
                line for line in plane.lines if line.name == MODULES
            )
        others = sorted({line.name for line in plane.lines if line not in read} - {""})
        if others:
            count = sum(line not in read for line in plane.lines)
            why = f"derived from the operations, or counters: {', '.join(others)[:200]}"
            device.left.append(LeftOut("lines of the device that repeat others", count, 0, why))

    def _threads(self, host: Host, plane: Plane, *, calls: bool, work: bool) -> None:
        """Calls that launch or wait, annotated steps, and operations of CPUs."""
        for line in plane.lines:
            thread = (host.file, f"{plane.name} {line.number} {line.name}")
            for span in line.events(lambda name: not name.startswith(_UNUSED)):
                host.events += 1
                step = span.number("step_num")
                if step >= 0 and span.end > span.start:
                    host.steps.append((span.name, step, thread, span.start, span.end))
                elif calls and _CALL.match(span.name):
                    number = max(0, span.number("correlation_id"))
                    if number or _WAITS.search(span.name):
                        self._keep(host)
                        host.calls.append(
                            RuntimeCall(span.name, thread, span.start, span.end, number)
                        )
                elif work and (place := span.number("device_ordinal")) >= 0 and span.word("hlo_op"):
                    self._keep(host)
                    host.cpu.setdefault(place, {}).setdefault(thread[1], []).append(span)
            host.untimed += line.untimed

    def _world(self, devices: Sequence[Device]) -> int:
        """Ranks of the job; which device ran which module."""
        programs = self.programs
        programs.world = len(devices)
        for rank, device in enumerate(devices):
            for _, _, name, number in device.runs.spans:
                programs.ran.setdefault((name, number), set()).add(rank)
            for line in device.lines.values():
                for span in line:
                    if name := span.word("hlo_module"):
                        key = (name, span.number("program_id"))
                        programs.ran.setdefault(key, set()).add(rank)
        world = max(len(devices), programs.devices())
        if world > len(devices):
            self.notes.append(
                f"the modules are for {counted(world, 'device')}, and {len(devices)} are in the "
                "profiles: these are taken to be the first ones"
            )
        programs.world = world
        return world

    def _work(self, rank: int, device: Device) -> Work:
        programs = self.programs
        if device.kind == "GPU":
            return xprof_ops.of_gpu(str(device.number), device.lines, programs, rank)
        number = str(device.number)
        return xprof_ops.in_order(number, device.lines, device.runs, programs, rank)

    def _about(
        self, hosts: Sequence[Host], devices: Sequence[Device], works: Sequence[Work]
    ) -> None:
        """Notes on what was read."""
        programs, kind = self.programs, devices[0].kind
        ops = sum(len(work.ops) for work in works)
        time = sum(op.end - op.start for work in works for op in work.ops)
        named = f"{kind}s" if len(devices) > 1 else kind
        self.notes.append(
            f"profile of XLA: {len(devices)} {named} on {counted(len(hosts), 'host')}, "
            f"{ops:,} operations of {time / PS_PER_MS:,.3f} ms; {programs.joined:,} events are "
            f"instructions of modules or have their text, {programs.unknown:,} are known by name "
            "only"
        )
        if programs.unknown and not programs.has_modules:
            self.notes.append(
                "no module is in the profile: give the text or protobuf of the modules next to it "
                "(XLA_FLAGS=--xla_dump_to=DIR --xla_dump_hlo_as_text), or the .xplane.pb with them"
            )
        stated = sum(work.stated for work in works)
        if stated:
            operations = sum(work.operations for work in works)
            size = sum(work.bytes for work in works)
            self.notes.append(
                f"the profile says of {stated:,} operations that they compute "
                f"{operations / 1e12:,.3f} TFLOP and access {size / 1e9:,.3f} GB; durations count, "
                "not these"
            )
        if kind == "CPU":
            self.notes.append(
                "the devices are CPUs of JAX, which share the cores of their hosts: their times "
                "are not those of GPUs or TPUs"
            )
        elif kind == "TPU":
            self.notes.append(
                "calls of the host are not joined with TPUs: idle time before operations is kept "
                "as it was"
            )
        unsized = sum((work.unsized for work in works), Counter[str]())
        if unsized:
            listed = ", ".join(f"{count:,} {name}" for name, count in sorted(unsized.items()))
            self.notes.append(
                f"messages whose partners are not known keep their time as kernels: {listed}"
            )
        for host in hosts:
            self.notes += [f"{host.file}: the profiler says: {said}" for said in host.space.said]
            if host.space.cut:
                self.notes.append(
                    f"{host.file}: has the most events that JAX writes into such a file, so others "
                    "may be missing; the .xplane.pb next to it has all"
                )
        self.notes += [f"a module can't be read: {said}" for said in sorted(programs.damaged)[:4]]
        left: dict[str, int] = defaultdict(int)
        for host in hosts:
            for plane in host.space.planes:
                if not plane.name.startswith("/host:") and plane.name != ENVIRONMENT:
                    read = _DEVICE.fullmatch(plane.name) and not _CORES.match(plane.name)
                    left[re.sub(r"\d+", "N", plane.name)[:80]] += not read
        said = ", ".join(f"{count} {name}" for name, count in sorted(left.items()) if count)
        if said:
            self.notes.append(f"planes that are not read: {said}")


def _trace(host: Host, device: Device, work: Work) -> Trace:
    stats = device.plane.stats
    name = str(stats.get("device_type_string") or stats.get("gpu_device_name") or "")
    vendor = str(stats.get("device_vendor") or "")
    title = name or f"{vendor} {device.kind}".strip()
    devices = [{"id": str(device.number), "name": title}]
    trace = Trace(f"{host.file} ({device.title})", {}, devices, host.space.started)
    trace.step_mark = STEP
    trace.device = sorted(work.ops, key=lambda op: (op.start, op.end))
    trace.has_launches = device.kind == "GPU" and bool(host.calls)
    if trace.has_launches:
        trace.calls = _calls_for(host, work)
        trace.has_launches = any(call.correlation for call in trace.calls)
    trace.untimed = host.untimed
    trace.left_out = list(device.left)
    around = "they are loops and calls, and their parts count"
    waits = "waits for collectives: the time of those"
    for what, count, time, why in (
        ("events with others inside them", work.around, 0, around),
        ("ends of collectives next to others", work.waits, work.wait_time, waits),
    ):
        if count:
            trace.left_out.append(LeftOut(what, count, time, why))
    return trace


def _calls_for(host: Host, work: Work) -> list[RuntimeCall]:
    """Calls that launch for a device, and waits that belong to it: those of threads that launch for
    it alone, those right before its launches, and synchronizations of threads that it shares."""
    own = {op.correlation for op in work.ops} - {0}
    by_thread: dict[Thread, list[RuntimeCall]] = {}
    for call in host.calls:
        by_thread.setdefault(call.thread, []).append(call)
    found: list[RuntimeCall] = []
    for calls in by_thread.values():
        calls.sort(key=lambda call: (call.start, call.end))
        if not any(call.correlation in own for call in calls):
            continue
        is_next = False
        kept = []
        for call in reversed(calls):
            is_wait = _WAITS.search(call.name) is not None
            if not is_wait:
                is_next = call.correlation in own
            if is_next or "Synchronize" in call.name:
                kept.append(call)
        found += reversed(kept)
    found.sort(key=lambda call: (call.start, call.end))
    return found


def _nothing(host: Host) -> Problem:
    """A profile without an operation of a device: what it has, and the way."""
    planes = [
        plane.name for plane in host.space.planes if plane.name not in (METADATA, ENVIRONMENT)
    ]
    named = ", ".join(planes[:6]) or "no plane"
    said = f"is a profile of XLA without an operation of a device; its planes are: {named}"
    if not any(plane.startswith("/device:") for plane in planes):
        said = (
            f"is a profile of XLA of a host alone ({named}), whose events do not say which "
            "instruction ran on which device"
        )
    return Problem(host.file, "planes", said[:400], ALLOWED)


def _damaged(file: str, error: xla.DamagedError) -> Problem:
    allowed = error.allowed or "a whole file, as XLA's profiler wrote it"
    return Problem(file, error.where, f"is a profile of XLA that {error.said}", allowed)
