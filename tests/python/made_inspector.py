"""Dumps of NCCL's inspector in the form of version 4.3, from records of version 4.2.

Source: plugins/profiler/inspector/README.md of NVIDIA/nccl, "Output Example"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

Record = dict[str, Any]


def call(
    communicator: str, rank: int, ranks: int, kind: str, number: int, size: int, when: int = 0
) -> Record:
    """A collective that ended, as version 4.2 writes it."""
    return {
        "header": {"id": communicator, "rank": rank, "n_ranks": ranks, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.2",
            "dump_timestamp_us": when,
            "hostname": "a",
            "pid": 7,
        },
        "coll_perf": {
            "coll": kind,
            "coll_sn": number,
            "coll_msg_size_bytes": size,
            "coll_exec_time_us": 100,
            "coll_algobw_gbs": size / 1e5,
            "coll_busbw_gbs": size / 1e5,
        },
    }


def newest(records: Sequence[Record], dropped: int = 0) -> Iterator[Record]:
    """The same with a marker before the records of one communicator and rank."""
    for (header, metadata), own in groupby(
        records, lambda each: (each["header"], each["metadata"])
    ):
        held = [{key: each[key] for key in each if key.endswith("_perf")} for each in own]
        counts = {kind: sum(kind in each for each in held) for kind in ("coll_perf", "p2p_perf")}
        yield {
            "header": header,
            "metadata": {**metadata, "inspector_output_format_version": "v4.3"},
            "dump_stats": {
                "coll_records": counts["coll_perf"],
                "coll_dropped_total": dropped,
                "coll_dropped_since_last_dump": 0,
                "p2p_records": counts["p2p_perf"],
            },
        }
        yield from held
