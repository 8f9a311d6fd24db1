"""Guesses at files that are not recordings of PyTorch, and ways out.

Here: first bytes, and a few words inside. Not here: reading anything (`reading.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ... import first_bytes
from ...errors import Problem

WANTED = (
    "Kineto traces (traceEvents, or a list of trace events), PyTorch execution traces (nodes) and "
    "dumps of PyTorch's flight recorder, task graphs of FlexFlow, SQLite exports of Nsight "
    "Systems, profiles of XLA (XSpace, or its trace.json.gz) and modules of XLA (HLO); plain, gzip "
    "or tar"
)
_PROFILER = "record the run with torch.profiler and export_chrome_trace"
_JAX = "the module itself: XLA_FLAGS=--xla_dump_to=DIR --xla_dump_hlo_as_text, *.txt"
_NSYS_WAY = "nsys export --type sqlite --include-blobs=true FILE, then armillary import FILE.sqlite"
_MAGIC: Sequence[tuple[bytes, bytes, str, str]] = (
    (b"PAR1", b"", "a Parquet file", WANTED),
    (b"PK\x03\x04", b"", "a zip archive, such as a checkpoint of torch.save", WANTED),
    (b"\x7fELF", b"", "a program", WANTED),
    (b"\x28\xb5\x2f\xfd", b"", "compressed with zstd", "plain JSON, gzip or tar"),
    (b"BZh", b"", "compressed with bzip2", "plain JSON, gzip or tar"),
    (b"\xfd7zXZ", b"", "compressed with xz", "plain JSON, gzip or tar"),
    (b"<", b"", "XML or HTML", WANTED),
)  # fmt: skip
"""First bytes, a word inside, what the file is, and the way."""
_NSYS = (".nsys-rep", ".qdrep", ".qdstrm")
_TABLE = (
    "armillary check FILE prints its table, armillary import FILE -o TABLE.csv writes it; for a "
    "workload the task graph that the simulator writes (.fbuf)"
)


def of_bytes(name: str, data: bytes) -> Problem | None:
    """A file of another format than JSON, by its first bytes; nothing for text that may be JSON."""
    head = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] == b"<" and (known := first_bytes.known_text(data)):
        return Problem(name, "", f"is {known[0]}", known[1])
    for magic, word, what, way in _MAGIC:
        if head.startswith(magic) and word in data:
            return Problem(name, "", f"is {what}", way)
    if name.endswith(_NSYS):
        return Problem(name, "", "is a report of Nsight Systems", _NSYS_WAY)
    if first_bytes.is_strategy(data):
        return Problem(name, "", "is a strategy of FlexFlow: devices without work", _TABLE)
    return None


def of_tables(name: str, tables: Iterable[str]) -> Problem | None:
    """A SQLite database that Nsight Systems did not write, by its tables."""
    names = [*tables]
    if any(each.startswith("CUPTI_ACTIVITY_KIND_") or each == "NVTX_EVENTS" for each in names):
        return None
    if any("rocpd" in each for each in names):
        return Problem(name, "", "is a database of rocprofv3 (SQLite)", _PROFILER)
    if "StringIds" in names:
        said = "is an export of Nsight Systems without CUDA"
        return Problem(name, "", said, "nsys profile --trace=cuda,nvtx")
    return Problem(name, "", "is a SQLite database", WANTED)


def of_text(name: str, data: bytes) -> Problem:
    """A document without trace events and without nodes."""
    head = data[:4096].lstrip()
    if not data.strip():
        return Problem(name, "", "is empty", WANTED)
    if b'"workload_graph"' in data or _is_protobuf(head):
        message = "is a Chakra trace, which is already converted"
        return Problem(name, "", message, "armillary run reads it directly")
    if b"NPKIT_EVENT" in head:
        message = "is a summary of NPKit events inside NCCL kernels, not a run of a model"
        return Problem(name, "", message, WANTED)
    if known := first_bytes.known_text(data):
        return Problem(name, "", f"is {known[0]}", known[1])
    kinds = {b"[": _list, b"{": _mapping}
    return kinds.get(head[:1], _no_json)(name, data, head)


def of_events(names: Sequence[str]) -> tuple[str, str]:
    """Kind of a trace without operators and kernels, by processes and events; and the way out."""
    text = " ".join(names)
    if "/device:" in text or "/host:" in text:
        return "is a trace of XLA's profiler", _JAX
    if re.search(r"HIP API|HSA API|COPY \d|GPU\d", text):
        return "is a trace of rocprof", _PROFILER
    return "has no host operation and no kernel", WANTED


def _list(name: str, _data: bytes, head: bytes) -> Problem:
    if re.match(rb"\[\s*\[", head):
        message = "is a list of lists; a memory timeline holds bytes over time, not operations"
        return Problem(name, "", message, WANTED)
    return Problem(name, "", "is a list without trace events", WANTED)


def _mapping(name: str, data: bytes, head: bytes) -> Problem:
    if b'"rocprofiler-sdk-tool"' in head:
        return Problem(name, "", "is JSON of rocprofv3", _PROFILER)
    if b'"TraceProcessEvent"' in data or b'"CudaEvent"' in data:
        return Problem(name, "", "is an export of Nsight Systems (JSON)", _NSYS_WAY)
    if first_bytes.is_inspector(head):
        said = "is a dump of NCCL's inspector: calls that ended, without what is between them"
        way = "armillary check of the folder with all dumps, or armillary calibrate"
        return Problem(name, "", said, way)
    if first_bytes.is_operators(head):
        said = "is a table of operators that FlexFlow measured, without their order"
        return Problem(name, "", said, _TABLE)
    return Problem(name, "", "is JSON without traceEvents and without nodes", WANTED)


def _no_json(name: str, data: bytes, head: bytes) -> Problem:
    if b"\0" in data[:4096]:
        return Problem(name, "", "is binary data of an unknown format", WANTED)
    what = "a table of comma-separated values" if _is_table(head) else "not JSON"
    return Problem(name, "", f"is {what}", WANTED)


def _is_protobuf(head: bytes) -> bool:
    """Whether a file begins as Chakra's binary traces do: a short message, with a version or the
    word schema first."""
    return (
        head[:1] not in b"[{"
        and (head[1:2] == b"\n" or b"schema" in head[:64])
        and min(head[:16], default=9) < 9
    )


def _is_table(head: bytes) -> bool:
    """Whether the first line separates words by commas alone, as prose and YAML don't."""
    first = head.split(b"\n")[0]
    return b"," in first and b", " not in first
