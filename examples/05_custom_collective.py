"""An all-gather of one's own: both ways round a ring at once, written as MSCCL XML, against the
built-in ring, which goes one way."""

import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import polars as pl

import armillary as arm

N = 8
SIZES = [2**20, 2**26, 2**30]


def both_ways() -> ET.Element:
    """Each NPU passes chunks on to its next neighbour, and others to the one before it."""
    algorithm = ET.Element(
        "algo",
        {"name": "both ways", "proto": "Simple", "coll": "allgather", "inplace": "0"}
        | {"ngpus": str(N), "nchunksperloop": str(N), "nchannels": "2"},
    )
    for npu in range(N):
        gpu = ET.SubElement(
            algorithm, "gpu", id=str(npu), i_chunks="1", o_chunks=str(N), s_chunks="0"
        )
        own = ET.SubElement(gpu, "tb", id="0", send="-1", recv="-1", chan="0")
        step(own, 0, "cpy", ("i", 0), ("o", npu), waits=None, waited_for=True)
        for block, way in enumerate((1, -1), start=1):
            to, back = (npu + way) % N, (npu - way) % N
            lane = ET.SubElement(
                gpu, "tb", id=str(block), send=str(to), recv=str(back), chan=str(block - 1)
            )
            for k in range(N // 2 if way == 1 else N // 2 - 1):
                sent, received = (npu - way * k) % N, (npu - way * (k + 1)) % N
                step(lane, 2 * k, "s", ("o", sent), ("o", sent), waits=0 if k == 0 else None)
                step(lane, 2 * k + 1, "r", ("o", received), ("o", received), waits=None)
    return algorithm


def step(
    lane: ET.Element,
    index: int,
    kind: str,
    source: tuple[str, int],
    target: tuple[str, int],
    waits: int | None,
    waited_for: bool = False,
) -> None:
    """Adds a step; `waits` is the thread block whose first step it waits for."""
    ET.SubElement(
        lane,
        "step",
        {"s": str(index), "type": kind, "cnt": "1", "hasdep": str(int(waited_for))}
        | {"srcbuf": source[0], "srcoff": str(source[1])}
        | {"dstbuf": target[0], "dstoff": str(target[1])}
        | {"depid": str(-1 if waits is None else waits), "deps": str(-1 if waits is None else 0)},
    )


def time(settings: Mapping[str, object]) -> pl.DataFrame:
    """The time of an all-gather by size, us."""
    ring = arm.Platform(f"R({N})", bandwidth="50 GB/s", latency="500 ns", settings=settings)
    return arm.collective("all_gather", SIZES, ring).select("size", "time_us")


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "both_ways.xml"
    ET.ElementTree(both_ways()).write(path)
    ours = time({"collectives.all_gather": {"custom": str(path)}})
print(
    time({})
    .rename({"time_us": "ring_us"})
    .join(ours.rename({"time_us": "both_ways_us"}), on="size")
)
