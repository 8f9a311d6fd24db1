"""The way of keys and values from engines that compute prompts to those that generate tokens."""

from __future__ import annotations

from .. import _core
from ..platform import Platform
from ..workload.program import Program
from .deployment import Engines

TOKENS = (1, 256, 4096, 65536)
"""Lengths of prompts at which the network is simulated."""


def transfer(
    platform: Platform, prompts: Engines, decode: Engines, backend: str | None = None
) -> tuple[tuple[float, float], ...]:
    """Tokens and seconds that their keys and values take over the simulated network.

    The GPUs of the engines that compute prompts come first on the platform. All those engines send
    at once: each GPU of one rank sends its part to a GPU behind them all."""
    width, pool = prompts.layout.tp, prompts.gpus
    senders = [
        engine * prompts.layout.gpus + place
        for engine in range(prompts.count)
        for place in range(width)
    ]
    there = min(decode.gpus, platform.npus - pool)
    ends = {rank: pool + number % there for number, rank in enumerate(senders)}
    sizes = [max(1, tokens * prompts.held.token + prompts.held.request) for tokens in TOKENS]
    programs = [Program() for _ in range(platform.npus)]
    last: dict[int, list[int]] = {}
    received: dict[int, list[list[int]]] = {}
    for number, size in enumerate(sizes):
        for rank, end in ends.items():
            tag = number * len(senders) + senders.index(rank)
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
    rows = []
    before = 0
    for number, tokens in enumerate(TOKENS):
        after = max(
            found[at][node] for at, nodes in enumerate(received.values()) for node in nodes[number]
        )
        rows.append((float(tokens), (after - before) / 1e12))
        before = after
    return tuple(rows)
