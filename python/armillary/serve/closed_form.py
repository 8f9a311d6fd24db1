"""Deployments under a constant load by a closed form, thousands in a second.

The tables of an engine's steps are made once for a layout; the closed form
(`crates/serve/src/balance.rs`) then takes microseconds for each load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

from .. import _core
from .deployment import Engines
from .load import Load


@dataclass(frozen=True, slots=True)
class Means:
    """Mean lengths of requests, tokens."""

    prompt: float
    fresh: float
    """Tokens of a prompt that are computed; the others come from a cache or another engine."""
    output: float
    output_squared: float
    """Mean of the square of the output."""
    prompt_squared: float = 0.0
    """Mean of the square of the prompt. No more than the square of the mean if prompts
    are all alike."""

    @classmethod
    def of(cls, load: Load) -> Means:
        """Those of a load whose prompts share nothing."""
        count = len(load.requests)
        prompt = sum(each.tokens for each in load.requests) / count
        output = sum(each.output for each in load.requests) / count
        squared = sum(each.output**2 for each in load.requests) / count
        prompts = sum(each.tokens**2 for each in load.requests) / count
        return cls(prompt, prompt, output, squared, prompts)

    def prompts_alone(self) -> Means:
        """As engines see them that compute prompts alone."""
        return replace(self, output=1.0, output_squared=1.0)

    def tokens_alone(self) -> Means:
        """As engines see them that get the keys and values of the prompts."""
        return replace(self, fresh=1.0)


@dataclass(frozen=True, slots=True)
class Balance:
    """Means of one engine under a constant load. Times are seconds."""

    concurrency: float
    """Requests that are there at any time."""
    ttft: float
    tpot: float
    rate: float
    """Requests a second."""
    running: float
    """Requests that run."""


def balances(engines: Engines, means: Means, concurrencies: Sequence[float]) -> list[Balance]:
    """Means of one of the engines for each number of requests that are there at any time.

    Prefix caches and speculation are left out."""
    loads = [(max(1.0, at), *astuple(means)) for at in concurrencies]
    found = _core.balances(engines.row(engines.longest), loads)
    return [Balance(at, *each) for at, each in zip(concurrencies, found, strict=True)]
