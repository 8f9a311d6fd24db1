"""The way of keys and values from engines that compute prompts to those that generate tokens.

On one platform the GPUs for prompts come first, those for tokens follow. Between two platforms the
way leaves a node of the one and enters a node of the other. It is simulated on the network between
nodes of each, and the slower of both counts. What connects the two networks is taken to be no
slower than they are."""

from __future__ import annotations

from collections.abc import Sequence

from .. import _core
from ..errors import InputError, Problem
from ..platform import Platform
from ..workload.program import Program
from .deployment import Engines, same

TOKENS = (1, 256, 4096, 65536)
"""Lengths of prompts at which the network is simulated."""


def transfer(
    prompts: Engines, decode: Engines, backend: str | None = None
) -> tuple[tuple[float, float], ...]:
    """Tokens and seconds that their keys and values take over the simulated network.

    All engines that compute prompts send at once: each GPU of one rank sends its part to a GPU for
    tokens.

    Raises:
        InputError: a platform of one node, whose network between nodes is unknown.
    """
    sizes = [max(1, tokens * prompts.held.token + prompts.held.request) for tokens in TOKENS]
    if same(prompts.platform, decode.platform):
        first = prompts.gpus
        ways = [_ends(prompts.platform, prompts, first, decode.gpus, sizes, backend)]
    else:
        ways = []
        for platform in (prompts.platform, decode.platform):
            start = _outside(platform, prompts.gpus)
            ways.append(_ends(platform, prompts, start, decode.gpus, sizes, backend))
    times = [max(each) for each in zip(*ways, strict=True)]
    return tuple((float(tokens), time) for tokens, time in zip(TOKENS, times, strict=True))


def node(platform: Platform) -> int:
    """NPUs of a node: the first dimension of the network. All of them where it has no others."""
    dims = platform.describe()["fabric"].get("dims") or []
    return int(dims[0]["size"]) if len(dims) > 1 else platform.npus


def _outside(platform: Platform, gpus: int) -> int:
    """The first NPU of a node behind those with `gpus` NPUs."""
    size = node(platform)
    start = -(-gpus // size) * size
    if start >= platform.npus:
        message = f"keys and values leave the nodes of {platform.name}, and it has no others"
        help_ = "a platform with more nodes, such as dgx-h100-16n"
        raise InputError([Problem("", "platform", message, help_)])
    return start


def _ends(
    platform: Platform,
    prompts: Engines,
    start: int,
    receivers: int,
    sizes: Sequence[int],
    backend: str | None,
) -> list[float]:
    """Seconds of each size from the first NPUs of a platform to those from `start` on."""
    width = prompts.layout.tp
    senders = [
        engine * prompts.layout.gpus + place
        for engine in range(prompts.count)
        for place in range(width)
    ]
    there = min(receivers, platform.npus - start)
    ends = {rank: start + number % there for number, rank in enumerate(senders)}
    programs = [Program() for _ in range(platform.npus)]
    last: dict[int, list[int]] = {}
    received: dict[int, list[list[int]]] = {}
    for number, size in enumerate(sizes):
        for place, (rank, end) in enumerate(ends.items()):
            tag = number * len(senders) + place
            sent = programs[rank].send(f"{tag}.send", last.get(rank, []), end - rank, size, tag)
            last[rank] = [sent]
            node = programs[end].recv(f"{tag}.receive", last.get(end, []), rank - end, size, tag)
            received.setdefault(end, [[] for _ in sizes])[number].append(node)
        for end, nodes in received.items():
            last[end] = nodes[number]
    for program in programs:
        if not len(program):
            program.compute("idle", [])
    workload = _core.Workload.listed(
        "transfer", programs, list(range(platform.npus)), [], [], None, []
    )
    found = _core.ends(workload, platform._core, backend, list(received))
    times = []
    before = 0
    for number in range(len(sizes)):
        after = max(
            found[at][each] for at, nodes in enumerate(received.values()) for each in nodes[number]
        )
        times.append((after - before) / 1e12)
        before = after
    return times
