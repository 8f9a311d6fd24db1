"""SQLite exports of Nsight Systems made by hand, with the tables and columns of schema 3.25.0. All
times in nanoseconds."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from armillary.errors import InputError
from armillary.workload.importer import import_traces

TABLES = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, systemClockNs INTEGER",
    "TARGET_INFO_GPU": "id INTEGER, name TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER "
    "NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName "
    "INTEGER NOT NULL, shortName INTEGER NOT NULL, graphNodeId INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER "
    "NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER "
    "NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId "
    "INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, graphId"
    " INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid "
    "INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId "
    "INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "syncType INTEGER NOT NULL, eventId INTEGER NOT NULL, eventSyncId INTEGER",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER, eventId INTEGER NOT NULL, eventSyncId INTEGER",
    "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, "
    "globalTid INTEGER, textId INTEGER, domainId INTEGER, binaryData TEXT",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "domainId INTEGER NOT NULL, schemaId INTEGER NOT NULL, idx "
    "INTEGER NOT NULL, type INTEGER, name TEXT, arrayOrUnionDetail INTEGER, offset INTEGER",
}
COMMUNICATOR, MESSAGE, PEER = 16777218, 16777220, 16777225
_ID, _SIZE = (18, "NCCL communicator ID", None), (22, "Message size [bytes]", 8)
SCHEMAS = {
    COMMUNICATOR: (_ID, (5, "No. of ranks", 8), (5, "Rank", 12), (5, "CUDA device", 16)),
    MESSAGE: (_ID, _SIZE),
    PEER: (_ID, _SIZE, (5, "Peer rank", 16)),
}
"""Type, name and offset of each field, as NCCL 2.27 registers them."""
PUSH_POP, DOMAIN = 59, 75
STEP_OF_PROCESS = 2**24


def payload(schema: int, form: str, *values: int) -> bytes:
    data = struct.pack(form, *values)
    return struct.pack("<QQQQ", 1, schema, len(data), 32) + data


@dataclass
class Export:
    """An export under construction."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    strings: dict[str, int] = field(default_factory=dict)
    correlation: int = 0

    def __post_init__(self) -> None:
        self.rows |= {table: [] for table in TABLES}
        for schema, fields in SCHEMAS.items():
            for place, (kind, name, offset) in enumerate(fields):
                self.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", 1, schema, place, kind, name, None, offset)
        self.add("TARGET_INFO_SESSION_START_TIME", 10**18, 0)

    def add(self, table: str, *values: object) -> None:
        self.rows[table].append(values)

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings) + 1)

    def call(self, name: str, thread: int, start: int, end: int) -> int:
        """A runtime call; its correlation id."""
        self.correlation += 1
        row = (start, end, thread, self.correlation, self.string(name))
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", *row)
        return self.correlation

    def kernel(
        self,
        name: str,
        thread: int,
        launch: tuple[int, int],
        ran: tuple[int, int],
        stream: int = 7,
        device: int = 0,
    ) -> None:
        """A launch and its kernel."""
        number = self.call("cudaLaunchKernel_v7000", thread, *launch)
        process, text = process_of(thread), self.string(name)
        row = (*ran, device, stream, number, process, text, text, None)
        self.add("CUPTI_ACTIVITY_KIND_KERNEL", *row)

    def range(
        self, name: str, thread: int, start: int, end: int | None, data: bytes | None = None
    ) -> None:
        """An NVTX range; one of NCCL is in its domain."""
        is_nccl = name.startswith("nccl")
        words = (None, self.string(name)) if is_nccl else (name, None)
        row = (start, end, PUSH_POP, words[0], thread, words[1], int(is_nccl), data)
        self.add("NVTX_EVENTS", *row)

    def wait(
        self, thread: int, at: int, awaited: int, waiting: int, device: int = 0, event: int = 0
    ) -> None:
        """Two calls of 1 us: an event on the awaited stream, and a wait of the other for it."""
        event = event or self.correlation + 1
        process = process_of(thread)
        record = self.call("cudaEventRecord_v3020", thread, at, at + 1000)
        event_row = (device, awaited, record, process, event, event)
        self.add("CUPTI_ACTIVITY_KIND_CUDA_EVENT", *event_row)
        number = self.call("cudaStreamWaitEvent_v3020", thread, at + 1000, at + 2000)
        row = (at + 1000, at + 2000, device, waiting, number, process, 2, event, event)
        self.add("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", *row)

    def write(self, path: Path, *after: str) -> Path:
        """The database, changed by statements."""
        path.unlink(missing_ok=True)
        connection = sqlite3.connect(path)
        for table, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
        self.rows["StringIds"] = [(number, text) for text, number in self.strings.items()]
        for table, rows in self.rows.items():
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        for statement in after:
            connection.execute(statement)
        connection.commit()
        connection.close()
        return path


def process_of(thread: int) -> int:
    return thread // STEP_OF_PROCESS * STEP_OF_PROCESS


def thread_of(process: int, number: int = 1) -> int:
    """A serialized thread; processes count from 1."""
    return 2**48 + process * STEP_OF_PROCESS + number


def small(ranks: int = 2) -> Export:
    """One step of a kernel and an all-reduce on each of several processes."""
    export = Export()
    for rank in range(ranks):
        thread = thread_of(1 + rank)
        data = payload(COMMUNICATOR, "<QiiiI", 99, ranks, rank, 0, 0)
        export.range("ncclCommInitRank", thread, 0, 9, data)
        export.range("step 4", thread, 1000, 100_000)
        export.kernel("gemm", thread, (2000, 5000), (6000, 20_000))
        export.range("ncclAllReduce", thread, 6000, 9500, payload(MESSAGE, "<QQ", 99, 4096))
        export.kernel("ncclDevKernel_AllReduce(a)", thread, (7000, 9000), (20_000, 50_000), 20)
        export.call("cudaDeviceSynchronize_v3020", thread, 9500, 60_000)
    return export


def refused(paths: Sequence[Path], **options: Any) -> list[str]:  # noqa: ANN401
    """The problems for which files are refused, each with a way out."""
    try:
        import_traces(paths, **options)
    except InputError as error:
        assert all(problem.help for problem in error.problems)
        return [str(problem) for problem in error.problems]
    raise AssertionError(f"{paths} were taken")
