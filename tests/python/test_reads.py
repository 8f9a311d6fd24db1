"""Every file that others wrote is opened by one bounded reader."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Armillary
from opened_files import opened

from armillary import documents
from armillary.errors import InputError

ROOT = Path(documents.__file__).parent
ELSEWHERE = {
    "files.py": "what was just written, to keep it",
    "machine.py": "what Linux says about the machine",
    "report/page.py": "styles of the package",
    "report/viewer.py": "texts of the package, and its own cache",
    "uncertainty/kernels.py": "tables of the package",
    "uncertainty/tables.py": "tables of the package",
}
"""Files that open others otherwise, and why it is safe."""


def test_files_are_opened_by_the_bounded_reader() -> None:
    found = {
        f"{name}: {line}"
        for path in sorted(ROOT.rglob("*.py"))
        if (name := str(path.relative_to(ROOT))) not in {*ELSEWHERE, "documents.py"}
        for line in opened(path)
    }
    assert not found


def test_exceptions_are_still_needed() -> None:
    unused = [name for name in ELSEWHERE if not any(opened(ROOT / name))]
    assert not unused


@pytest.fixture(params=["pipe", "socket", "device", "folder", "link to a device"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Everything that is not a plain file."""
    path = tmp_path / "given"
    match request.param:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                # The path of a socket has at most 107 bytes.
                folder = os.open(tmp_path, os.O_PATH)
                listener.bind(f"/proc/self/fd/{folder}/given")
                os.close(folder)
                yield str(path)
            return
        case "device":
            path = Path("/dev/zero")
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to("/dev/zero")
    yield str(path)


def test_only_plain_files_are_read(endless: str) -> None:
    with pytest.raises(InputError, match="it is a") as caught:
        documents.read_bytes(endless, "a file")
    assert caught.value.problems[0].file == endless


GIVEN = {
    "platform": ["check", "-p", "FILE"],
    "graph": ["check", "-p", "{topology: {file: FILE}}"],
    "parent": ["check", "-p", "{extends: FILE}"],
    "routes": [
        "check",
        "-p",
        "{topology: 'Mesh(2)_Mesh(2)', links: {bandwidth: 1 GB/s, latency: 1 ns},"
        " network: {flit: {routing: {table: FILE}}}}",
    ],
    "gemms": [
        "check",
        "-p",
        "{topology: Ring(4), links: {bandwidth: 1 GB/s, latency: 1 ns},"
        " npu: {compute: {model: measured, table: FILE, peak: 1 TFLOP/s},"
        " memory: {bandwidth: 1 GB/s}}}",
    ],
    "msccl": [
        "check",
        "-p",
        "{topology: Ring(4), links: {bandwidth: 1 GB/s, latency: 1 ns},"
        " collectives: {all_reduce: {custom: FILE}}}",
    ],
    "workload": ["check", "FILE", "-p", "dgx-h100"],
    "design": ["design", "FILE"],
    "sweep": ["sweep", "FILE"],
    "recording": ["import", "FILE", "-o", "OUT"],
    "model": ["workload", "FILE", "-o", "OUT"],
    "log": ["calibrate", "FILE", "-p", "dgx-h100"],
    "report": ["compare", "FILE", "FILE"],
    "pattern": ["traffic", "-p", "dgx-h100", "--pattern", "FILE"],
    "checkpoint": ["checkpoint", "import", "FILE", "--model", "dlrm-small", "-o", "OUT"],
    "measured kernels": [
        "check",
        "-p",
        "{extends: dgx-h100, npu: {kernels: {measured: FILE}}}",
    ],
    "clicks": ["ingest", "FILE", "-o", "OUT"],
}
"""A command for each kind of file."""


@pytest.mark.parametrize("endless", ["pipe", "device"], indirect=True)
@pytest.mark.parametrize("kind", GIVEN)
def test_no_verb_reads_what_never_ends(
    kind: str, endless: str, tmp_path: Path, armillary: Armillary
) -> None:
    def argument(word: str) -> str:
        word = word.replace("FILE", endless).replace("OUT", str(tmp_path / "out"))
        if not word.startswith("{"):
            return word
        file = tmp_path / "platform.yml"
        file.write_text(word, encoding="utf-8")
        return str(file)

    arguments = [argument(word) for word in GIVEN[kind]]
    run = armillary(*arguments)
    assert run.returncode == 2, (run.stdout, run.stderr)
    assert run.stderr.startswith("error: ")
    assert "Traceback" not in run.stderr
