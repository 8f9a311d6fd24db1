"""Scripts played a call of the core for every operation: what the core's own playing is held
against."""

from __future__ import annotations

from armillary.workload.script import (
    CollectiveStep,
    Exchange,
    Gemm,
    KernelStep,
    KernelStream,
    Script,
    Wait,
)


def play(stream: KernelStream, prefix: str, script: Script) -> None:
    """As `Stream.play` describes it."""
    program = stream.program
    for step in script:
        name = prefix + step.name
        if isinstance(step, Gemm):
            width = step.width or stream.width
            sizes = {"m": step.m, "n": step.n, "k": step.k, "batch": step.batch}
            stream.after = [
                program.gemm(name, stream.after, **sizes, width=width, grouped=step.grouped)
            ]
        elif isinstance(step, KernelStep):
            what, count, size = step.kernel, step.operations, step.bytes
            stream.after = [
                program.compute(name, stream.after, operations=count, bytes=size, kernel=what)
            ]
        elif isinstance(step, Wait):
            stream.after = [*stream.after, stream.started.pop(step.name)]
        elif isinstance(step, Exchange):
            program.send(
                f"{name}.send", stream.after, stream.ring.ahead, step.bytes, stream.tags[0]
            )
            node = program.recv(
                f"{name}.receive", stream.after, stream.ring.behind, step.bytes, stream.tags[0]
            )
            stream.started[step.name] = node
            stream.tags[0] += 1
        else:
            node = program.collective(
                name, stream.after, step.kind, step.bytes, step.group + stream.suffix
            )
            if isinstance(step, CollectiveStep):
                stream.after = [*stream.after, node]
            else:
                stream.started[step.name] = node
