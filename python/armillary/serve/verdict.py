"""The limits of a deployment, in words."""

from __future__ import annotations

from .run import Part, Served

_GROWS = 2.0
"""How much longer the last quarter of the requests waits than the first, where a queue grows."""


def queue_grows(found: Served) -> bool:
    """Whether requests that arrive by themselves come faster than they are served: the last quarter
    of them waits much longer than the first, and longer than a request runs."""
    if found.load.arrivals is None or len(found.answers) < 8:
        return False
    ordered = sorted(found.answers, key=lambda each: each.arrival)
    waits = [each.admitted - each.arrival for each in ordered]
    quarter = len(waits) // 4
    first, last = sum(waits[:quarter]) / quarter, sum(waits[-quarter:]) / quarter
    return last > _GROWS * first and last > found.latency.p50 / 4


def largest(found: Served) -> Part:
    """The part in which steps spend most of their time."""
    return max((part for part in found.parts if not part.host), key=lambda part: part.seconds)


def verdict(found: Served) -> list[str]:
    """Sentences, the main one first."""
    part = largest(found)
    spent = sum(each.seconds for each in found.parts if not each.host)
    said = [f"{part.name} takes {part.seconds / spent:.0%} of the time of steps"]
    wait = found.queue.mean / found.ttft.mean if found.ttft.mean else 0.0
    if queue_grows(found):
        said.insert(0, "the queue grows: requests arrive faster than they are served")
    elif wait > 0.5:
        said.insert(0, f"requests spend {wait:.0%} of the time to the first token in the queue")
    lost = sum(each.preemptions for each in found.answers)
    if lost:
        said.append(f"requests lost their cache {lost:,} times: the memory is too small for them")
    return said
