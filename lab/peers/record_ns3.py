"""Answers of ns-3 through `adapters/ns3`: times and losses of the workloads of
`tests/python/ns3.py`."""

from __future__ import annotations

import subprocess
from dataclasses import asdict
from typing import Any

import ns3
from answers import Answers, main


def version() -> str:
    """The version of Debian's package, without Debian's own number."""
    command = ["dpkg-query", "--show", "--showformat=${Version}", "libns3-dev"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return run.stdout.split("-")[0]


def runs(workloads: list[ns3.Drawn], network: str) -> list[dict[str, Any]]:
    """Workloads, and what ns-3 answers."""
    return [{"workload": asdict(each), "answer": each.run(network)} for each in workloads]


def answers() -> Answers:
    """All of them."""
    network = ns3.backend()
    drawn = [*ns3.slow_start_left_early(), *ns3.drawn(ns3.SEED, 60)]
    return {
        "drawn": runs(drawn, network),
        "lossy": runs(ns3.drawn(ns3.SEED, 4, lossy=True), network),
        "rows": [{**asdict(each), "us": each.us(network)} for each in ns3.ROWS],
        "smaller_us": ns3.smaller(network),
    }


if __name__ == "__main__":
    main(version(), answers)
