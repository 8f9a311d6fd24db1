"""A worker process: `python -m armillary.sweep.worker`. A study, then lists of points, come in;
finished points go out.

One line of JSON each. When the process that started it ends, however, its pipe closes and the
worker ends at once."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading

from .runner import Runner

READY = b"ready\n"


def _listen(lines: queue.SimpleQueue[bytes]) -> None:
    """Hands lines on. It runs in its own thread, so that a closed pipe is noticed during a long
    run."""
    for line in sys.stdin.buffer:
        if line.endswith(b"\n"):  # the last one may be cut off
            lines.put(line)
    os._exit(0)


def main() -> None:
    """Works until nothing more can come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not come between the answers
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    runner = Runner.opened(lines.get())
    try:
        answers.write(READY)
        answers.flush()
        while True:
            for index, values in json.loads(lines.get()):
                answers.write(runner.answer((index, tuple(values))) + b"\n")
                answers.flush()
    except BrokenPipeError:  # nothing is left to answer to
        os._exit(0)


if __name__ == "__main__":
    main()
