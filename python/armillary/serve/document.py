"""The result of a deployment as JSON (`armillary.serve/1`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .deployment import Engines
from .limits import Limits
from .run import Served, Spread
from .steady import Steady, steady
from .verdict import queue_grows

if TYPE_CHECKING:
    from .intervals import Uncertain
    from .what_if import Change

SCHEMA = "armillary.serve/1"
_HOUR = 3600
_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars of a GPU for an hour."""

    gpu: float
    prompts: float | None = None
    """Those of engines for prompts alone, if it is another one."""

    def hour(self, found: Served) -> float:
        """Dollars of a deployment for an hour."""
        if found.decode is None or self.prompts is None:
            return found.gpus * self.gpu
        return found.engines.gpus * self.prompts + found.decode.gpus * self.gpu

    @property
    def said(self) -> str:
        """In words."""
        also = "" if self.prompts is None else f" and ${self.prompts:g} for prompts"
        return f"${self.gpu:g} a GPU-hour{also}"


def as_dict(
    found: Served,
    limits: Limits,
    price: Price | None,
    warnings: list[str],
    changes: Sequence[Change] = (),
    within: Uncertain | None = None,
) -> dict[str, Any]:
    """The result. Times are ms, rates tokens or requests a second, `price` is that of GPUs. Of
    `changes`, parts by which quantities change: 0.31 is 31 % more. `within` are intervals."""
    span = found.span
    result: dict[str, Any] = {
        "requests": len(found.answers),
        "span_s": span,
        "gpus": found.gpus,
        "ttft_ms": _ms(found.ttft),
        "tpot_ms": _ms(found.tpot),
        "itl_ms": _ms(found.itl),
        "latency_ms": _ms(found.latency),
        "queue_ms": _ms(found.queue),
        "requests_per_s": len(found.answers) / span,
        "output_tokens_per_s": found.output_rate,
        "tokens_per_s": found.rate,
        "tokens_per_s_per_gpu": found.rate / found.gpus,
        "output_tokens_per_s_per_gpu": found.output_rate / found.gpus,
        "tokens_per_s_per_user": 1 / found.tpot.mean if found.tpot.mean else None,
        "preemptions": sum(each.preemptions for each in found.answers),
        "cached_share": _cached(found),
        "steps": found.steps,
        "mean_batch": _batch(found),
        "cache_peak_share": _peak(found),
        "busy_share": found.busy / span / (found.engines.count + _count(found.decode)),
    }
    if limits.given:
        good = found.goodput(limits.ttft, limits.tpot)
        result["slo"] = {
            "ttft_ms": None if limits.ttft is None else 1e3 * limits.ttft,
            "tpot_ms": None if limits.tpot is None else 1e3 * limits.tpot,
            "requests_per_s": good,
            "share": good * span / len(found.answers),
        }
    result["steady"] = {
        name: {
            "warm_up_requests": each.warm_up,
            "mean_ms": 1e3 * each.mean,
            "interval_95_ms": [1e3 * (each.mean - each.half), 1e3 * (each.mean + each.half)],
        }
        for name, each in steady_means(found)
    }
    if found.load.measured:
        result["measured"] = {
            name: {"mean_ms": 1e3 * seen, "error": ours / seen - 1}
            for name, seen, ours in measured(found)
        }
    if price is not None:
        result["dollars_per_million_tokens"] = cost(found, price, found.rate)
        result["dollars_per_million_output_tokens"] = cost(found, price, found.output_rate)
    if within is not None:
        result["intervals"] = within.as_dict(outputs(found), _dollars(found, price))
    return {
        "schema": SCHEMA,
        "deployment": _deployment(found.engines),
        "decode": _deployment(found.decode) if found.decode else None,
        "load": found.load.said,
        "result": result,
        "step_parts": [
            {"name": part.name, "seconds": part.seconds, "host": part.host} for part in found.parts
        ],
        "what_if": [
            {
                "said": each.said,
                "gpus": each.served.gpus,
                "goodput": each.goodput / each.before - 1 if each.before else None,
                "ttft": each.ttft - 1,
                "tpot": each.tpot - 1,
            }
            for each in changes
        ],
        "samples": [
            {"time_s": time, "running": running, "waiting": waiting, "blocks": used}
            for time, running, waiting, used in found.samples
        ],
        "warnings": warnings,
    }


def cost(found: Served, price: Price, rate: float) -> float:
    """Dollars of a million tokens at a rate."""
    return price.hour(found) / _HOUR / rate * _MILLION


def outputs(found: Served) -> float:
    """Mean tokens that are generated for a request."""
    return sum(each.output for each in found.answers) / len(found.answers)


def _dollars(found: Served, price: Price | None) -> float | None:
    """Dollars of a second of all GPUs."""
    return None if price is None else price.hour(found) / _HOUR


def steady_means(found: Served) -> list[tuple[str, Steady]]:
    """Means of the steady state of a load that arrives by itself; none where the queue grows."""
    if found.load.arrivals is None or queue_grows(found):
        return []
    answers = sorted(found.answers, key=lambda each: each.arrival)
    quantities = (
        ("ttft", [each.ttft for each in answers]),
        ("tpot", [each.tpot for each in answers if each.tpot is not None]),
        ("latency", [each.latency for each in answers]),
    )
    means = ((name, steady(values)) for name, values in quantities)
    return [(name, mean) for name, mean in means if mean is not None]


def measured(found: Served) -> list[tuple[str, float, float]]:
    """Mean times that a recording has, seconds: name, measured, simulated."""
    seen = found.load.measured
    if not seen:
        return []
    ttft = sum(first for first, _ in seen) / len(seen)
    latency = sum(whole for _, whole in seen) / len(seen)
    return [("ttft", ttft, found.ttft.mean), ("latency", latency, found.latency.mean)]


def table(found: Served) -> list[Mapping[str, Any]]:
    """A row for each request, in the order of arrivals; times are seconds. Recorded requests have
    the line of their file."""
    return [
        {
            "request": number,
            **({"line": found.load.lines[number]} if found.load.lines else {}),
            "arrival_s": each.arrival,
            "queue_s": each.admitted - each.arrival,
            "ttft_s": each.ttft,
            "tpot_s": each.tpot,
            "latency_s": each.latency,
            "input_tokens": each.prompt,
            "output_tokens": each.output,
            "cached_tokens": each.cached,
            "preemptions": each.preemptions,
            "engine": each.engine,
            "transfer_s": each.transfer,
        }
        for number, each in enumerate(found.answers)
    ]


def _count(engines: Engines | None) -> int:
    return engines.count if engines else 0


def _ms(spread: Spread) -> dict[str, float]:
    return {name: 1e3 * value for name, value in spread.row().items()}


def _cached(found: Served) -> float:
    return sum(each.cached for each in found.answers) / sum(each.prompt for each in found.answers)


def _batch(found: Served) -> float:
    """Requests in a step, over all steps."""
    return found.in_steps / found.steps if found.steps else 0.0


def _peak(found: Served) -> float:
    """The fullest state of the cache that was sampled."""
    engines = found.decode or found.engines
    blocks = engines.blocks * engines.layout.dp * engines.count
    return max((used for *_, used in found.samples), default=0) / blocks


def _deployment(engines: Engines) -> dict[str, Any]:
    held = engines.held
    return {
        "engine": engines.engine.name,
        "engine_version": engines.engine.file.version,
        "platform": engines.platform.name,
        "engines": engines.count,
        "gpus": engines.gpus,
        **dataclasses.asdict(engines.layout),
        **dataclasses.asdict(engines.precision),
        "max_num_seqs": engines.sequences,
        "max_num_batched_tokens": engines.tokens,
        "block_size": engines.block,
        "blocks": engines.blocks,
        "cache_tokens": engines.blocks * engines.block,
        "network": engines.network,
        "memory": {
            "weights_bytes": held.weights,
            "activations_bytes": held.activations,
            "context_bytes": held.context,
            "cache_bytes_per_token": held.token,
            "state_bytes_per_request": held.request,
        },
    }
