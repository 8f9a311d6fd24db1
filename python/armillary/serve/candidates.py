"""Deployments that a search tries: engines, layouts, pairs of layouts for prompts and tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import InputError
from ..model.decoder import Decoder
from ..platform import Platform
from .closed_form import Balance, Means, balances
from .deployment import Engines, deploy, same
from .engines import Engine
from .layout import Layout, Precision
from .limits import Limits
from .transfer import node

GRID = tuple(round(2 ** (step / 2)) for step in range(25))
"""Requests at a time at which an engine is looked at, up to 4,096."""
KEPT = 8
"""Layouts for prompts, and layouts for tokens, that are paired."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Engines with their load in the balance."""

    engines: Engines
    """One of the engines that generate tokens."""
    count: int
    at: Balance
    """Balance of one of them."""
    prompts: Engines | None = None
    """One of the engines that compute prompts, where they are apart."""
    prompt_count: int = 0
    prompts_at: Balance | None = None

    @property
    def gpus(self) -> int:
        """GPUs of all engines."""
        first = self.prompts.layout.gpus * self.prompt_count if self.prompts else 0
        return first + self.count * self.engines.layout.gpus

    @property
    def pools(self) -> list[tuple[Engines, int]]:
        """Engines and how many there are, those for prompts first."""
        first = [(self.prompts, self.prompt_count)] if self.prompts else []
        return [*first, (self.engines, self.count)]

    @property
    def fits(self) -> bool:
        """Whether the platforms have the GPUs."""
        taken: dict[str, int] = {}
        for engines, count in self.pools:
            name = engines.platform.name
            taken[name] = taken.get(name, 0) + count * engines.layout.gpus
        return all(taken[each.platform.name] <= each.platform.npus for each, _ in self.pools)

    def hour(self, prices: Mapping[str, float] | None) -> float:
        """Dollars of an hour, by platform; without prices the number of GPUs."""
        return sum(
            count * engines.layout.gpus * (prices[engines.platform.name] if prices else 1.0)
            for engines, count in self.pools
        )

    @property
    def platform(self) -> str:
        """Name of the platform, or of both."""
        name = self.engines.platform.name
        first = self.prompts.platform.name if self.prompts else name
        return name if first == name else f"{first} and {name}"

    @property
    def rate(self) -> float:
        """Requests a second."""
        generated = self.count * self.at.rate
        if self.prompts_at is None:
            return generated
        return min(generated, self.prompt_count * self.prompts_at.rate)

    @property
    def ttft(self) -> float:
        """Mean time to the first token; of engines apart without the way between them."""
        if self.prompts_at is None:
            return self.at.ttft
        return self.prompts_at.ttft + self.at.tpot

    @property
    def concurrency(self) -> int:
        """Requests that are there at any time."""
        there = self.count * self.at.concurrency
        if self.prompts_at is not None:
            there += self.prompt_count * self.prompts_at.concurrency
        return max(1, round(there))

    def said(self) -> str:
        """The layout in words."""
        text = f"{self.count} x {words(self.engines)}"
        if self.prompts is None:
            return text
        first = f"{self.prompt_count} x {words(self.prompts)}"
        names = [each.platform.name for each in (self.prompts, self.engines)]
        if names[0] != names[1]:
            first, text = f"{first} of {names[0]}", f"{text} of {names[1]}"
        return f"{first} for prompts, {text} for tokens"


def words(engines: Engines) -> str:
    """An engine in words, such as `vllm tp=4`."""
    layout = engines.layout
    degrees = [("tp", layout.tp), ("pp", layout.pp), ("dp", layout.dp), ("ep", layout.ep)]
    said = " ".join(f"{name}={value}" for name, value in degrees if value > 1) or "tp=1"
    return f"{engines.engine.name} {said}"


@dataclass
class Tried:
    """Deployments of one platform and engine."""

    found: list[Candidate] = field(default_factory=list)
    points: list[tuple[Engines, Balance]] = field(default_factory=list)
    """Every layout at every number of requests: the frontier is among them."""
    refused: dict[str, int] = field(default_factory=dict)
    """Layouts that were left out, by reason."""
    first: list[tuple[Engines, Balance]] = field(default_factory=list)
    """Engines for prompts alone."""
    later: list[tuple[Engines, Balance]] = field(default_factory=list)
    """Engines for tokens alone."""

    def refuse(self, reason: str) -> None:
        """Counts a layout that was left out."""
        self.refused[reason] = self.refused.get(reason, 0) + 1


def layouts(model: Decoder, most: int) -> Iterator[Layout]:
    """Layouts of an engine of at most `most` GPUs; every degree is a power of 2."""
    powers = [2**power for power in range(11) if 2**power <= most]
    for tp in powers:
        for pp in powers[:3]:
            for dp in powers if model.experts else (1,):
                if tp * pp * dp > most:
                    continue
                stage = tp * dp
                for ep in sorted({1, stage}) if model.experts else (1,):
                    if dp > 1 and ep == 1:
                        continue
                    yield Layout(tp, pp, dp, ep)


def tried(
    model: Decoder,
    platform: Platform,
    engine: Engine,
    precision: Precision,
    means: Means,
    limits: Limits,
    longest: int,
    *,
    apart: bool,
) -> Tried:
    """Every layout that keeps the limits, at the number of requests with the highest rate."""
    all_ = Tried()
    for layout in layouts(model, platform.npus):
        try:
            engines = deploy(model, platform, engine, layout, precision, longest=longest)
        except InputError as error:
            all_.refuse(_reason(error))
            continue
        count = platform.npus // layout.gpus
        grid = [at for at in GRID if at <= engines.sequences * layout.dp * layout.pp]
        row = balances(engines, means, grid)
        all_.points += [(engines, at) for at in row]
        best = best_of(row, limits)
        if best is None:
            all_.refuse("too slow for the service level, also with one request")
        else:
            all_.found.append(Candidate(engines, count, best))
        if apart and (count > 1 or node(platform) < platform.npus):
            prompts = best_of(balances(engines, means.prompts_alone(), grid), Limits(limits.ttft))
            tokens = best_of(
                balances(engines, means.tokens_alone(), grid), Limits(None, limits.tpot)
            )
            all_.first += [(engines, prompts)] if prompts else []
            all_.later += [(engines, tokens)] if tokens else []
    all_.found += pairs(all_.first, all_.later)
    return all_


def best_of(row: Sequence[Balance], limits: Limits) -> Balance | None:
    """The balance with the highest rate among those that keep the limits."""
    kept = [
        at
        for at in row
        if (limits.ttft is None or at.ttft <= limits.ttft)
        and (limits.tpot is None or at.tpot <= limits.tpot)
    ]
    return max(kept, key=lambda at: (at.rate, -at.concurrency), default=None)


def across(all_: Sequence[Tried], prices: Mapping[str, float] | None = None) -> Iterator[Candidate]:
    """Prompts on one platform and tokens on another, both with several nodes."""
    for one in all_:
        for other in all_:
            if not one.first or not other.later:
                continue
            ends = (one.first[0][0], other.later[0][0])
            nodes = all(node(each.platform) < each.platform.npus for each in ends)
            apart = nodes and not same(ends[0].platform, ends[1].platform)
            if apart and ends[0].engine.name == ends[1].engine.name:
                yield from pairs(one.first, other.later, prices)


def pairs(
    first: Sequence[tuple[Engines, Balance]],
    later: Sequence[tuple[Engines, Balance]],
    prices: Mapping[str, float] | None = None,
) -> Iterator[Candidate]:
    """Prompts and tokens on engines of their own: the best numbers of each for their GPUs."""

    def per_gpu(pair: tuple[Engines, Balance]) -> float:
        return -pair[1].rate / pair[0].layout.gpus

    for prompts, before in sorted(first, key=per_gpu)[:KEPT]:
        for engines, at in sorted(later, key=per_gpu)[:KEPT]:
            best: Candidate | None = None
            shared = same(prompts.platform, engines.platform)
            most = prompts.platform.npus
            for count in range(1, most // prompts.layout.gpus + 1):
                taken = count * prompts.layout.gpus if shared else 0
                rest = (engines.platform.npus - taken) // engines.layout.gpus
                needed = -(-count * before.rate // at.rate)
                number = min(rest, max(1, int(needed)))
                if number < 1:
                    continue
                made = Candidate(engines, number, at, prompts, count, before)
                if best is None or made.rate / made.hour(prices) > best.rate / best.hour(prices):
                    best = made
            if best is not None:
                yield best


def _reason(error: InputError) -> str:
    """Why a layout is left out, without its numbers."""
    place = error.problems[0].place
    if place == "memory":
        return "the memory does not hold the model and one request"
    if place in ("tp", "pp", "dp", "ep"):
        return "the model can't be spread so"
    return "a kernel of the layout has no time"
