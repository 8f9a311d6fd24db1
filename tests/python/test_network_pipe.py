"""`armillary network`: networks for front ends in other processes, and the header for C."""

from __future__ import annotations

import io
import os
import random
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import armillary as arm
from armillary.network import serve

HELLO, ADVANCE, DELIVERY, NEXT, ERROR = 1, 6, 16, 17, 22
SEND, RECEIVE, SCHEDULE, ACCESS = 32, 33, 34, 35
NEVER = 2**64 - 1
Record = tuple[int, ...]
PLATFORM = """
topology: Switch(6)
links: {bandwidth: 10 GB/s, latency: 500 ns}
scheduler: {chunks: 1, endpoint_delay: 0 ns}
collectives: {all_reduce: ring}
"""
START: Record = (HELLO, 1, 0, 0, 0, 0, 0)


def packed(*records: Record) -> bytes:
    return b"".join(struct.pack("<4I3Q", *record) for record in records)


def answered(given: bytes, backend: str = "analytical") -> list[Record]:
    """The records that answer `given`, without texts."""
    sink = io.BytesIO()
    serve(arm.Platform.parse(PLATFORM), backend, io.BytesIO(given), sink)
    return unpacked(sink.getvalue())[0]


def unpacked(text: bytes) -> tuple[list[Record], bytes]:
    """Records, and the text behind the last of them."""
    found, last = [], b""
    while text:
        record = struct.unpack("<4I3Q", text[:40])
        found.append(record)
        size = record[5] if record[0] in (HELLO, ERROR) else 0
        last, text = text[40 : 40 + size], text[40 + size :]
    return found, last


def test_records_are_answered_by_what_is_due() -> None:
    """10 kB take 1 us on 10 GB/s, and two links 1 us. The call of 2 us comes after the message."""
    given = packed(
        START,
        (SEND, 0, 1, 0, 10_000, 7, 0),
        (RECEIVE, 0, 1, 0, 10_000, 7, 5),
        (SCHEDULE, 0, 0, 0, 2_000_000, 0, 6),
        (SCHEDULE, 0, 0, 0, 9_000_000, 0, 8),
        *[(ADVANCE, 0, 0, 0, 8_000_000, 0, 0)] * 3,
        *[(ADVANCE, 0, 0, 0, NEVER, 0, 0)] * 2,
    )
    assert answered(given)[1:] == [
        (DELIVERY, 0, 0, 0, 2_000_000, 0, 5),
        (NEXT, 0, 0, 0, 2_000_000, 0, 0),
        (DELIVERY, 0, 0, 0, 2_000_000, 0, 6),
        (NEXT, 0, 0, 0, 2_000_000, 0, 0),
        (NEXT, 1, 0, 0, 8_000_000, 0, 0),
        (DELIVERY, 0, 0, 0, 9_000_000, 0, 8),
        (NEXT, 0, 0, 0, 9_000_000, 0, 0),
        (NEXT, 1, 0, 0, 9_000_000, 0, 0),
    ]


def test_an_access_to_memory_is_a_record() -> None:
    """64 kB at 64 GB/s, and 1 us; a load and a store of one NPU take turns."""
    link = "{model: link, sharing: per_npu, bandwidth: 64 GB/s, latency: 1 us}"
    target = arm.Platform.parse(f"{PLATFORM}remote_memory: {link}\n")
    last = (ADVANCE, 0, 0, 0, NEVER, 0, 0)
    accesses = [(ACCESS, 2, 1, store, 64_000, 0, 5 + store) for store in (0, 1)]
    sink = io.BytesIO()
    serve(target, "flow", io.BytesIO(packed(START, *accesses, last, last)), sink)
    records, _ = unpacked(sink.getvalue())
    ends = [(record[4], record[6]) for record in records if record[0] == DELIVERY]
    assert ends == [(2_000_000, 5), (4_000_000, 6)]


def test_the_answer_to_hello_has_version_and_npus() -> None:
    assert answered(packed(START)) == [(HELLO, 1, 6, 0, 0, len("platform"), 0)]
    assert answered(b"") == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (packed((ADVANCE, 0, 0, 0, 0, 0, 0)), "a record of kind 6 came first"),
        (packed((HELLO, 2, 0, 0, 0, 0, 0)), "the front end has version 2"),
        (packed(START)[:-1], "ends inside a record"),
        (packed(START, START), "a record of kind 1"),
        (packed(START, (99, 0, 0, 0, 0, 0, 0)), "a record of kind 99"),
        (packed(START, (SEND, 0, 6, 0, 1, 0, 0)), "NPU 6 does not exist"),
        (packed(START, (RECEIVE, 2**32 - 1, 0, 0, 1, 0, 0)), "NPU 4294967295 does not exist"),
        (packed(START, (SEND, 3, 3, 0, 1, 0, 0)), "sends to itself"),
        (packed(START, (ACCESS, 0, 5, 0, 1, 0, 0)), "an access with location 5"),
        (packed(START, (ACCESS, 0, 1, 2, 1, 0, 0)), "direction 2"),
        (packed(START, (ACCESS, 9, 1, 0, 1, 0, 0)), "NPU 9 does not exist"),
        (packed(START, (SCHEDULE, 0, 0, 0, NEVER, 0, 1)), "213 simulated days"),
        (
            packed(START, (ADVANCE, 0, 0, 0, 10, 0, 0), (ADVANCE, 0, 0, 0, 9, 0, 0)),
            "9 ps is in the past",
        ),
        (
            packed(START, (SEND, 0, 1, 0, 5, 0, 0), (RECEIVE, 0, 1, 0, 6, 0, 0)),
            "5 bytes .* a receive of 6 bytes",
        ),
        (
            packed(START, (RECEIVE, 0, 1, 0, 6, 0, 0), (ADVANCE, 0, 0, 0, NEVER, 0, 0)),
            "NPU 1 waits for 6 bytes",
        ),
    ],
)
def test_what_cannot_be_is_an_error_and_a_record_of_it(given: bytes, words: str) -> None:
    sink = io.BytesIO()
    with pytest.raises(arm.ArmillaryError, match=words) as raised:
        serve(arm.Platform.parse(PLATFORM), "analytical", io.BytesIO(given), sink)
    records, said = unpacked(sink.getvalue())
    assert records[-1][0] == ERROR
    assert said.decode() == str(raised.value)


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`adapters/c/ring.c`, compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    made = tmp_path_factory.mktemp("c") / "ring"
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *strict, "-o", made, ROOT / "adapters/c/ring.c"], check=True)
    return made


def run(ring: Path, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the program, which finds `armillary` in PATH."""
    command = tmp_path / "armillary"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m armillary.cli "$@"\n')
    command.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    return subprocess.run(
        [ring, *words], capture_output=True, text=True, env=environment, timeout=100, check=False
    )


@pytest.mark.parametrize("backend", ["analytical", "flow", "packet"])
def test_a_ring_in_c_takes_as_long_as_the_executor(
    ring: Path, tmp_path: Path, backend: str
) -> None:
    file = tmp_path / "p.yml"
    file.write_text(PLATFORM)
    size = 6 * random.Random(backend).randrange(1, 20_000)
    ours = arm.collective("all_reduce", size, file, backend=backend)["time_us"][0]
    ran = run(ring, tmp_path, str(file), backend, str(size))
    assert (ran.stdout, ran.stderr) == (f"{round(ours * 1e6)}\n", "")


def test_a_fault_reaches_the_front_end_in_c(ring: Path, tmp_path: Path) -> None:
    ran = run(ring, tmp_path, "dgx-h100", "fast", "64")
    assert ran.returncode == 1
    assert 'backend: unknown backend "fast"' in ran.stderr
