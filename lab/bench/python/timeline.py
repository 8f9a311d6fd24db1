"""Time, memory and size of a timeline of millions of packets, and of the same run without one.

`python lab/bench/python/timeline.py [DATA_PARALLEL]`: a step of GPT-3 175B on 8 x DATA_PARALLEL
NPUs, every rank simulated and shown. Each run is a process of its own, for its peak of memory."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import armillary as arm


def run(dp: int, path: str) -> None:
    """One run; prints what it took."""
    platform = arm.Platform.load("dgx-h100-16n", {"npus": str(8 * dp), "scheduler.chunks": "16"})
    workload = arm.workload.build("gpt3-175b", tp=8, dp=dp, global_batch=dp)
    begin, cpu = time.perf_counter(), time.process_time()
    shown = range(8 * dp) if path else None
    result = arm.simulate(workload, platform, fold=False, timeline=path or None, ranks=shown)
    took = {
        "wall_s": time.perf_counter() - begin,
        "cpu_s": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "events": result.cost["events"],
        "packets": result.timeline["packets"] if result.timeline else 0,
        "file_mb": Path(path).stat().st_size / 1e6 if path else 0,
    }
    print(json.dumps(took))


def main() -> None:
    """Both runs."""
    dp = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    if len(sys.argv) > 2:
        run(dp, sys.argv[2])
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, path in (("without", ""), ("with", str(Path(folder) / "t.pftrace"))):
            done = subprocess.run(
                [sys.executable, __file__, str(dp), path],
                capture_output=True,
                text=True,
                check=True,
            )
            print(f"{name:8}", done.stdout.strip())


main()
