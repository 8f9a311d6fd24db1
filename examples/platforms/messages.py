"""messages.py PLATFORM: every NPU sends messages of many sizes to every other one, all at once."""

import sys

import armillary as arm
from armillary.workload import Program, Workload


def size(start: int, end: int) -> int:
    """Bytes of a message: 1 kB times the square of a number from 1 to 23."""
    return 1000 * ((7 * start + 3 * end) % 23 + 1) ** 2


def workload(ranks: int) -> Workload:
    """A message from each NPU to each other one."""
    programs = []
    for rank in range(ranks):
        program = Program()
        for ahead in range(1, ranks):
            to, behind = (rank + ahead) % ranks, (rank - ahead) % ranks
            program.send("send", [], to - rank, size(rank, to), tag=ahead)
            program.recv("receive", [], behind - rank, size(behind, rank), tag=ahead)
        programs.append(program)
    return Workload.listed("messages", programs, list(range(ranks)), {})


if __name__ == "__main__":
    platform = arm.Platform.load(sys.argv[1])
    step = arm.simulate(workload(platform.npus), platform).step_time_ns / 1000
    print(f"{step:,.1f} us")
