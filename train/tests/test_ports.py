"""Ports of a training that we start: other machines can't reach them."""

from __future__ import annotations

import ipaddress
import os
import re
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_copies import Command, Copies

pytest.importorskip("torch")

LISTENS = "0A"
"""State of a listening socket in Linux's tables."""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's tables of sockets")
@pytest.mark.parametrize(
    ("command", "named"),
    [
        (
            ["train", "dlrm-small", "--global-batch", "64", "--steps", "1000000", "--readers", "1"],
            False,
        ),
        (["bench"], True),
    ],
    ids=["train", "bench"],
)
def test_ports_listen_on_loopback_only(
    command: Sequence[str], named: bool, trainings: Copies, tmp_path: Path
) -> None:
    """Also where the caller's environment has `named` another interface."""
    outer = next((name for _, name in socket.if_nameindex() if name != "lo"), "lo")
    environment = {**os.environ, **({"GLOO_SOCKET_IFNAME": outer} if named else {})}
    run = trainings.start([*command, "--ranks", "2", "--threads", "1"], tmp_path, environment)
    try:
        found = ports_of(run)
    finally:
        run.send_signal(signal.SIGTERM)
        said = run.communicate(30)[1]
    assert found, said
    assert all(address.is_loopback for address in found.values()), found


def ports_of(
    run: Command,
) -> dict[str, ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Addresses of the listening sockets of a run, once both ranks and the store have one."""
    deadline, found = time.monotonic() + 90, {}
    while time.monotonic() < deadline and run.poll() is None:
        inodes = {inode for process in family(run.pid) for inode in sockets(process)}
        found = {inode: each for inode, each in listening().items() if inode in inodes}
        if len(found) >= 3:
            time.sleep(1)  # Those of gloo follow the store's.
            break
        time.sleep(0.1)
    return found


def family(process: int) -> list[int]:
    """A process and all that it has started."""
    children = [
        int(each)
        for path in Path(f"/proc/{process}/task").glob("*/children")
        for each in text(path).split()
    ]
    return [process, *(each for child in children for each in family(child))]


def text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # The process has ended.
        return ""


def sockets(process: int) -> list[str]:
    """Numbers of the sockets that a process has."""
    names = []
    for path in Path(f"/proc/{process}/fd").glob("*"):
        try:
            names.append(str(path.readlink()))
        except OSError:
            continue
    return [found[1] for name in names if (found := re.fullmatch(r"socket:\[(\d+)\]", name))]


def listening() -> dict[str, ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Address of each listening socket of this machine, by its number."""
    found = {}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in text(Path(f"/proc/net/{table}")).splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS or table.startswith("udp"):
                words = re.findall(".{8}", fields[1].partition(":")[0])
                raw = b"".join(struct.pack("=I", int(word, 16)) for word in words)
                found[fields[9]] = ipaddress.ip_address(raw)
    return found
