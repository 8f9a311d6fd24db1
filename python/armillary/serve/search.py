"""The best deployment of a model for a service level, over platforms, engines and layouts.

A closed form looks at every candidate (`candidates.py`). The best ones are simulated from event to
event, with fewer requests at a time until the service level holds. Not a proof: the closed form
decides which candidates are simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from ..errors import InputError, Problem
from ..model.decoder import Decoder
from ..platform import Platform
from ..uncertainty import Factors, Interval, alike
from .candidates import Candidate, Tried, across, tried, words
from .closed_form import Means
from .engines import Engine
from .intervals import factors
from .layout import Precision
from .limits import Limits
from .load import Lengths, Load, drawn
from .run import Served, keeps, serve
from .transfer import transfer
from .verdict import queue_grows

SCHEMA = "armillary.serve-plan/1"
SHARE = 0.9
"""Part of the requests that has to keep the service level."""
_SHRINKS = 0.85
_TRIES = 10
_MOST_REQUESTS = 20_000


@dataclass(frozen=True, slots=True)
class Job:
    """A model, its requests and the service level."""

    model: Decoder
    precision: Precision
    prompt: Lengths
    output: Lengths
    limits: Limits
    rate: float | None = None
    """Requests a second that have to be served; `None` for the most of each GPU."""
    seed: int = 0

    def load(self, count: int, concurrency: int | None = None, rate: float | None = None) -> Load:
        """Requests of the job."""
        return drawn(
            count, self.prompt, self.output, rate=rate, concurrency=concurrency, seed=self.seed
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """A deployment that was simulated."""

    candidate: Candidate
    served: Served
    share: float
    """Part of the requests that keeps the service level, after the start."""
    rate: float
    """Requests a second."""
    gpus: int
    dollars: float | None
    """Dollars of a million output tokens."""
    within: tuple[Interval, ...] | None = None
    """Factors on TTFT, TPOT and rate; `None` where they are unknown."""

    @property
    def cost_factors(self) -> Factors | None:
        """Factors on what a token costs."""
        return (1 / self.within[2].high, 1 / self.within[2].low) if self.within else None

    def intervals(self) -> dict[str, Any] | None:
        """Intervals as JSON."""
        if self.within is None:
            return None
        ttft, tpot, rate = self.within
        served = self.served
        found: dict[str, Any] = {
            "level": rate.level,
            "ttft_ms": list(ttft.of(1e3 * served.ttft.mean)),
            "tpot_ms": list(tpot.of(1e3 * served.tpot.mean)),
            "output_tokens_per_s_per_gpu": list(rate.of(self.tokens_per_gpu)),
        }
        if self.dollars is not None and self.cost_factors is not None:
            ends = [end * self.dollars for end in self.cost_factors]
            found["dollars_per_million_output_tokens"] = ends
        return {**found, "extrapolated": list(rate.outside)}

    @property
    def platform(self) -> str:
        """Name of the platform, or of both."""
        return self.candidate.platform

    @property
    def tokens_per_gpu(self) -> float:
        """Output tokens a second for each GPU."""
        mean = sum(each.output for each in self.served.answers) / len(self.served.answers)
        return self.rate * mean / self.gpus


@dataclass(frozen=True, slots=True)
class Point:
    """A deployment by the closed form: tokens a second of a user, and output tokens a second of a
    GPU."""

    said: str
    platform: str
    concurrency: float
    user: float
    gpu: float


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search."""

    job: Job
    choices: tuple[Choice, ...]
    """Simulated deployments that keep the service level, the best first."""
    looked_at: int
    """Candidates and loads by the closed form."""
    frontier: tuple[Point, ...]
    refused: dict[str, int]
    """Layouts that were left out, by reason."""
    alike: int | None
    """Other choices that the uncertainty does not separate from the best one; `None` where it is
    unknown."""
    stop: KeyboardInterrupt | None = None
    """A Ctrl-C, after which no more candidates were simulated."""


def _check_names(what: str, names: Sequence[str]) -> None:
    """Results and prices are by name, and a deployment does not compete with itself."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        message = f"two are named {', '.join(twice)}"
        raise InputError([Problem("", what, message, f"each {what} once, by a name of its own")])


def search(
    job: Job,
    platforms: Sequence[Platform],
    engines: Sequence[Engine],
    *,
    prices: dict[str, float] | None = None,
    apart: bool = True,
    simulations: int = 8,
    progress: Callable[[float, float], None] | None = None,
) -> Found:
    """The best deployments. `prices` are dollars of a GPU for an hour, by platform; with them the
    cheapest tokens win, else the most tokens of a GPU; with a rate the fewest dollars or GPUs.

    Raises:
        InputError: no deployment keeps the service level (the reasons are named), or two platforms
            or engines have one name.
    """
    _check_names("platform", [each.name for each in platforms])
    _check_names("engine", [each.name for each in engines])
    means = Means.of(job.load(256, 1))
    longest = job.load(_MOST_REQUESTS, 1).longest
    all_: list[Candidate] = []
    points: list[Point] = []
    refused: dict[str, int] = {}
    looked_at = 0
    every: list[Tried] = []
    for number, (platform, engine) in enumerate((p, e) for p in platforms for e in engines):
        found = tried(
            job.model, platform, engine, job.precision, means, job.limits, longest, apart=apart
        )
        looked_at += len(found.points) + len(found.found)
        points += _points(found, means)
        for reason, count in found.refused.items():
            refused[reason] = refused.get(reason, 0) + count
        all_ += found.found
        every.append(found)
        if progress is not None:
            progress(0.5 * (number + 1) / (len(platforms) * len(engines)), 0.0)
    all_ += across(every, prices)
    if job.rate is not None:
        all_ = [made for each in all_ if (made := _sized(each, job.rate)) is not None]
    ranked = sorted(all_, key=lambda each: (_cost(each, prices, job), each.gpus, each.said()))
    chosen = _different(ranked, simulations)
    choices: list[Choice] = []
    stop: KeyboardInterrupt | None = None
    for number, candidate in enumerate(chosen):
        try:
            choice = _simulated(candidate, job, prices)
        except KeyboardInterrupt as error:
            if not choices:
                raise
            stop = error
            break
        if choice is not None:
            choices.append(choice)
        if progress is not None:
            progress(0.5 + 0.5 * (number + 1) / len(chosen), 0.0)
    if not choices:
        raise InputError([_nothing(job, refused, points)])
    choices.sort(key=lambda each: _rank(each, job, prices))
    ranks = [(_rank(each, job, prices)[0], each.cost_factors) for each in choices]
    return Found(job, tuple(choices), looked_at, frontier(points), refused, alike(ranks), stop)


def _cost(each: Candidate, prices: dict[str, float] | None, job: Job) -> float:
    """Dollars (or GPUs) of a request a second; with a rate, of the deployment."""
    return each.hour(prices) / (1.0 if job.rate is not None else each.rate)


def _rank(each: Choice, job: Job, prices: dict[str, float] | None) -> tuple[float, float]:
    cost = each.candidate.hour(prices)
    return (cost if job.rate is not None else cost / each.rate, each.served.tpot.mean)


def _sized(each: Candidate, rate: float) -> Candidate | None:
    """With the engines that the rate needs; `None` where the platform has too few GPUs."""
    if each.prompts is None:
        sized = replace(each, count=max(1, -int(-rate // each.at.rate)))
        return sized if sized.fits else None
    assert each.prompts_at is not None
    sized = replace(
        each,
        count=max(1, -int(-rate // each.at.rate)),
        prompt_count=max(1, -int(-rate // each.prompts_at.rate)),
    )
    return sized if sized.fits else None


def _different(ranked: Sequence[Candidate], most: int) -> list[Candidate]:
    """The first candidates with prompts and tokens together, and the first with both apart, in
    turn. At most three of a platform have the same layout for tokens."""
    taken: dict[tuple[str, object, str, bool], int] = {}
    kinds: tuple[list[Candidate], list[Candidate]] = ([], [])
    for each in ranked:
        apart = each.prompts is not None
        key = (each.platform, each.engines.layout, each.engines.engine.name, apart)
        taken[key] = taken.get(key, 0) + 1
        if taken[key] <= 3:
            kinds[apart].append(each)
    in_turn = [each for pair in zip_longest(*kinds) for each in pair if each is not None]
    return in_turn[:most]


def _simulated(each: Candidate, job: Job, prices: dict[str, float] | None) -> Choice | None:
    """The candidate at the most requests at a time that keep the service level."""
    if job.rate is not None:
        return _at_rate(each, job, job.rate, prices)
    # Engines for both are independent of each other: one stands for all.
    alone = replace(each, count=1) if each.prompts is None else each
    concurrency = alone.concurrency
    for _ in range(_TRIES):
        load = job.load(min(_MOST_REQUESTS, max(6 * concurrency, 100)), concurrency)
        served = _served(alone, load)
        share = kept(served, job.limits, concurrency)
        if share >= SHARE:
            rate = plateau(served, concurrency)
            return _choice(each, served, share, rate * each.gpus / alone.gpus, prices)
        if concurrency == 1:
            return None
        concurrency = max(1, int(concurrency * _SHRINKS))
    return None


def _at_rate(
    each: Candidate, job: Job, rate: float, prices: dict[str, float] | None
) -> Choice | None:
    """The candidate at the rate of the job, with more engines until the service level holds."""
    for _ in range(_TRIES):
        if not each.fits:
            return None
        there = max(1, round(rate * (each.ttft + each.at.tpot * job.output.mean)))
        load = job.load(min(_MOST_REQUESTS, max(400, 4 * there)), rate=rate)
        served = _served(each, load)
        share = kept(served, job.limits, 0)
        if share >= SHARE and not queue_grows(served):
            return _choice(each, served, share, rate, prices)
        late = job.limits.ttft is not None and served.ttft.p90 > job.limits.ttft
        if each.prompts is not None and late:
            more = max(1, each.prompt_count // 8)
            each = replace(each, prompt_count=each.prompt_count + more)
        else:
            each = replace(each, count=each.count + max(1, each.count // 8))
    return None


def _choice(
    each: Candidate,
    served: Served,
    share: float,
    rate: float,
    prices: dict[str, float] | None,
) -> Choice:
    mean = sum(answer.output for answer in served.answers) / len(served.answers)
    dollars = None
    if prices:
        dollars = each.hour(prices) / 3600 / (rate * mean) * 1e6
    within = factors(served, closed=True)
    return Choice(each, served, share, rate, each.gpus, dollars, within)


def _served(each: Candidate, load: Load) -> Served:
    """A load on the engines of a candidate."""
    engines = replace(each.engines, count=each.count)
    if each.prompts is None:
        return serve(engines, load, routing="least_loaded")
    prompts = replace(each.prompts, count=each.prompt_count)
    way = transfer(prompts, engines)
    return serve(prompts, load, decode=engines, transfer=way, routing="least_loaded")


def kept(served: Served, limits: Limits, start: int) -> float:
    """Part of the requests after the first `start` that keeps the limits."""
    answers = served.answers[start:] or served.answers
    good = sum(keeps(each, limits.ttft, limits.tpot) for each in answers)
    return good / len(answers)


def plateau(served: Served, concurrency: int) -> float:
    """Requests that end in a second, without the first and the last `concurrency`."""
    ends = sorted(each.end for each in served.answers)
    first, last = concurrency, len(ends) - concurrency - 1
    if last <= first or ends[last] <= ends[first]:
        return len(ends) / served.span
    return (last - first) / (ends[last] - ends[first])


def _points(found: Tried, means: Means) -> list[Point]:
    points = []
    for engines, at in found.points:
        layout = engines.layout
        said = words(engines)
        gpu = at.rate * means.output / layout.gpus
        points.append(Point(said, engines.platform.name, at.concurrency, 1 / at.tpot, gpu))
    return points


def frontier(points: Sequence[Point]) -> tuple[Point, ...]:
    """Points of each platform that no other one beats in both quantities, slow users first."""
    found = []
    for platform in dict.fromkeys(point.platform for point in points):
        best = 0.0
        kept_ = []
        own = [point for point in points if point.platform == platform]
        for point in sorted(own, key=lambda point: (-point.user, -point.gpu, point.said)):
            if point.gpu > best:
                best = point.gpu
                kept_.append(point)
        found += kept_[::-1]
    return tuple(found)


def _nothing(job: Job, refused: dict[str, int], points: Sequence[Point]) -> Problem:
    reasons = [f"{count} layouts: {reason}" for reason, count in refused.items()]
    if points:
        fastest = max(points, key=lambda point: point.user)
        reasons.append(
            f"the fastest, {fastest.said} on {fastest.platform}, takes {1e3 / fastest.user:.3g} ms "
            "for a token"
        )
    where = f" at {job.rate:g} requests a second" if job.rate is not None else ""
    message = f"no deployment keeps the service level{where}: " + "; ".join(reasons)
    return Problem("", "--slo", message, "a wider one, more GPUs (--npus), or narrower formats")


def as_dict(found: Found, warnings: list[str]) -> dict[str, Any]:
    """The result as JSON (`armillary.serve-plan/1`)."""
    limits = found.job.limits
    return {
        "schema": SCHEMA,
        "slo": {
            "ttft_ms": None if limits.ttft is None else 1e3 * limits.ttft,
            "tpot_ms": None if limits.tpot is None else 1e3 * limits.tpot,
            "share": SHARE,
        },
        "requests_per_s": found.job.rate,
        "looked_at": found.looked_at,
        "deployments": [
            {
                "said": each.candidate.said(),
                "platform": each.candidate.engines.platform.name,
                "prefill_platform": each.candidate.pools[0][0].platform.name,
                "gpus": each.gpus,
                "requests_per_s": each.rate,
                "output_tokens_per_s_per_gpu": each.tokens_per_gpu,
                "concurrency": each.served.load.concurrency or None,
                "ttft_ms": 1e3 * each.served.ttft.mean,
                "tpot_ms": 1e3 * each.served.tpot.mean,
                "share_within_slo": each.share,
                "dollars_per_million_output_tokens": each.dollars,
                "intervals": each.intervals(),
            }
            for each in found.choices
        ],
        "alike": found.alike,
        "frontier": [
            {
                "said": each.said,
                "platform": each.platform,
                "concurrency": each.concurrency,
                "tokens_per_s_per_user": each.user,
                "output_tokens_per_s_per_gpu": each.gpu,
            }
            for each in found.frontier
        ],
        "refused": found.refused,
        "warnings": warnings,
    }
