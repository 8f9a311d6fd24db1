"""The result of a deployment as JSON (`armillary.serve/1`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .deployment import Engines
from .run import Served, Spread

SCHEMA = "armillary.serve/1"
_HOUR = 3600
_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Limits:
    """Service level (SLO), seconds; `None` for no limit."""

    ttft: float | None = None
    tpot: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is one."""
        return self.ttft is not None or self.tpot is not None

    @property
    def said(self) -> str:
        """In words."""
        pairs = (("first token", self.ttft), ("each token", self.tpot))
        return ", ".join(f"{name} within {1e3 * at:g} ms" for name, at in pairs if at is not None)


def as_dict(
    found: Served, limits: Limits, price: float | None, warnings: list[str]
) -> dict[str, Any]:
    """The result. Times are ms, rates tokens or requests a second, `price` dollars of a GPU for an
    hour."""
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
    if price is not None:
        result["dollars_per_million_tokens"] = cost(found, price, found.rate)
        result["dollars_per_million_output_tokens"] = cost(found, price, found.output_rate)
    return {
        "schema": SCHEMA,
        "deployment": _deployment(found.engines),
        "decode": _deployment(found.decode) if found.decode else None,
        "load": found.load.said,
        "result": result,
        "step_parts": [
            {"name": part.name, "seconds": part.seconds, "host": part.host} for part in found.parts
        ],
        "samples": [
            {"time_s": time, "running": running, "waiting": waiting, "blocks": used}
            for time, running, waiting, used in found.samples
        ],
        "warnings": warnings,
    }


def cost(found: Served, price: float, rate: float) -> float:
    """Dollars of a million tokens at a rate."""
    return found.gpus * price / _HOUR / rate * _MILLION


def table(found: Served) -> list[Mapping[str, Any]]:
    """A row for each request; times are seconds."""
    return [
        {
            "request": number,
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
    """Requests in a step, over all steps, by Little's law on the time that requests run."""
    running = sum(each.end - each.admitted for each in found.answers)
    return running / found.busy if found.busy else 0.0


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
        "memory": {
            "weights_bytes": held.weights,
            "activations_bytes": held.activations,
            "context_bytes": held.context,
            "cache_bytes_per_token": held.token,
            "state_bytes_per_request": held.request,
        },
    }
