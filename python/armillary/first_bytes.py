"""Files of other programs that are not workloads, by their first bytes.

Here: guesses that read little and load nothing. Not here: reading them (`workload/importer`,
`workload/task_graphs`), and what they hold (`explain/contents.py`)."""

from __future__ import annotations

import os
import re
import zlib

from . import documents

MOST = 4096
PICKLED = tuple(b"\x80" + bytes([version]) for version in range(2, 6))
"""How pickles begin."""
_SNAPSHOT = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:segments|device_traces|allocator_settings|external_annotations'
    rb'|host_segments|host_traces)"'
)

_STRATEGY = re.compile(
    rb"\x0a.{1,3}?\x0a.[A-Za-z_0-9]\w{0,60}\x10[\x00\x01][\x18\x1a\x20\x22]", re.S
)
"""An operator with a name and a type of device. Source: src/runtime/strategy.proto of FlexFlow."""
_OPERATORS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"')

_INSPECTOR = (b'"dump_stats"', b'"coll_perf"')


def of(path: str | os.PathLike[str]) -> bytes:
    """The first `MOST` bytes of a file, unpacked if it is gzip; none where it can't be read."""
    try:
        with documents.open_plain(path) as stream:
            found = documents.read_stream(stream, MOST)
        if found[:2] == b"\x1f\x8b":
            return zlib.decompressobj(wbits=31).decompress(found, MOST)
    except (OSError, ValueError, zlib.error):
        return b""
    return found


def may_be_snapshot(head: bytes) -> bool:
    """Whether a file that begins so may be a snapshot of PyTorch's memory: any pickle, or JSON of
    its keys."""
    return head[:2] in PICKLED or _SNAPSHOT.match(head) is not None


def is_inspector(head: bytes) -> bool:
    """Whether a file that begins so is a dump of NCCL's inspector."""
    return head.lstrip()[:1] in (b"{", b"[") and any(word in head for word in _INSPECTOR)


def is_strategy(head: bytes) -> bool:
    """Whether a file that begins so is a strategy of FlexFlow."""
    return _STRATEGY.match(head[:128]) is not None


def is_operators(head: bytes) -> bool:
    """Whether a file that begins so is a table of operators that FlexFlow measured."""
    return _OPERATORS.match(head) is not None and b'"measurements"' in head and b'"pc_str"' in head


_CALIBRATE = "armillary calibrate FILE -p PLATFORM -o MINE.yml fits a platform to it"
_COMPARE = "armillary compare PREDICTED.json FILE compares its steps with a predicted one"
_NETWORK = "armillary platform import FILE -o CLUSTER.yml makes a platform of it"
_LINES: tuple[tuple[str, str, str], ...] = (
    (r"#\s*Collective test starting:|#\s*nThread \d|#\s+size\s+count\s+type", "nccl-tests", ""),
    (r"#\s*OSU (?:MPI|NCCL|RCCL|HCCL)", "OSU Micro-Benchmarks", ""),
    (r"#\s*Benchmarking \w+\s*$", "Intel MPI Benchmarks", ""),
    (r"Collective:\s+\w+\s*\nMemory type:", "ucc_perftest", ""),
    (r"\s*COMMS-RES", "PARAM's comms.py", ""),
    (r".{0,400}?elapsed time per iteration \(ms\):", "Megatron-LM", _COMPARE),
    (r".{0,400}?train_step_timing in s[:=]", "NeMo", _COMPARE),
    (r".{0,100}?:::MLLOG \{", "MLPerf Training", _COMPARE),
    (r".{0,100}?\bstep: +\d+ .{1,300}?\btps: ", "torchtitan", _COMPARE),
    (r"=+ (?:Weight|Hops|Link Type) between two GPUs =+", "rocm-smi --showtopo", _NETWORK),
    (r"(?:\x1b\[\d*m)?\s+GPU0(?:\s+(?:GPU|NIC)\d+)+", "nvidia-smi topo -m", _NETWORK),
    (r"\s*(?:SwitchName|BlockName)\s*=", "a topology.conf of Slurm", _NETWORK),
    (r"# Topology file: generated on|(?:Switch|Ca)\t\d+ \"", "ibnetdiscover", _NETWORK),
    (r"(?:CA|Switch): .{1,200}:\s*$", "iblinkinfo", _NETWORK),
    (r"<system version=", "NCCL's topology", _NETWORK),
)
"""How a line of a text begins, which program wrote it, and the way; `_CALIBRATE` if empty."""
_KNOWN = [(re.compile(f"^{line}", re.MULTILINE), of, way) for line, of, way in _LINES]


def known_text(head: bytes) -> tuple[str, str] | None:
    """The text of another program that a file begins with, which is not a workload, and the command
    for it."""
    text = head[:MOST].decode("utf-8", "replace")
    if text.lstrip("\ufeff \t\r\n")[:1] == "{":
        return None
    for line, writer, way in _KNOWN:
        if line.search(text):
            found = (
                writer if writer.startswith(("a ", "NCCL's topology")) else f"output of {writer}"
            )
            return found, way or _CALIBRATE
    return None
