"""Parameters of a library on many machines at once, organized in levels.

A parameter of a machine is a product along a chain of levels, from what all machines share to the
machine itself:

```text
ln value = ln centre + sum over the levels of a chain of departure[level, member, parameter]
```

The departures are the most probable ones (maximum a posteriori):

```text
minimize  sum over sweeps w sum over bands mean |ln(predicted / measured)| / B
          + sum over departures that are not 0 of (COST + |departure| / spread)
```

The first part is a Laplace likelihood of errors with the scale `B` of a size band (`SCALES`): what
sources differ by that measured the same machine. The second is a spike-and-slab prior: a departure
is exactly zero unless it pays for itself, and then it has a Laplace prior. So a member that was
measured in one or two sweeps keeps its parent's values except where the sweeps insist. Values stay
within bounds of physics.

A departure of a level that only one of its members bears out, because no sweep of another member
depends on the parameter, may as well be that member's own. Whichever of the two the search chose,
it is divided between them in proportion to the prior densities of either: the member's sweeps can't
tell them apart, and the level's other members get the mean over both cases.

The sweeps of one source on one machine are not independent: together they count by the square root
of their number. What differs between hosts and can't be known of another one is a level too
(`HOST`). It takes part in the fit and is left out of predictions.

The search has two parts:

- *All departures together* (`linear_program.py`). The spike is rounded first, to
  `COST log(1 + |departure| / (sharpness spread))`, and made sharper from round to round. So it
  begins with many small departures, wherever the search begins, and ends with few.
- *One after the other*, by steps of several sizes. This part has the exact spike. It also tries to
  move a departure to its parent level and to the members below.

Source of the prior: T. J. Mitchell and J. J. Beauchamp, "Bayesian Variable Selection in Linear
Regression" (JASA 83, 1988); shrinkage between levels: A. Gelman and others, "Bayesian Data
Analysis", 3rd edition, chapter 5; the rounded spike: E. J. Candes, M. B. Wakin and S. P. Boyd,
"Enhancing Sparsity by Reweighted l1 Minimization" (Journal of Fourier Analysis and Applications 14,
2008)."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from armillary.calibrate.case import Case
from armillary.calibrate.descent import descend, offsets

from .linear_program import Slopes

SCALES = (0.2, 0.1, 0.05)
"""Error that counts as one in each size band, up to 64 KiB, to 16 MiB and above: `B`. Sources that
measured the same machine differ by 24, 17 and 7 % (lab/accuracy/collectives.md), each by about half
of that from what they have in common."""
BAND_WEIGHT = 3.0
"""Independent measurements that a size band of a sweep is worth."""
COST = 1.0
"""Price of a departure: a departure from zero is `e` times less likely than none."""
HOST = "host"
"""The level of what differs from host to host."""
_HOST_COST = 0.3
_STEPS = (0.5, 0.2, 0.08, 0.03)
_PASSES = 8
_ENOUGH = 0.5
"""Improvement below which a pass is the last one."""
_SHARPNESS = (3.0, 1.0, 0.3, 0.1)
"""How far from zero the rounded spike reaches, in spreads, from round to round."""
_ROUNDS, _REACH, _NEAR = 6, 0.5, 0.02
"""Linear programs in a row, how far a departure may move in the first one, and in the last one."""
_LITTLE = 0.2
"""Improvement by which a linear program must lower the sum."""
_DROPPED, _MOVED = 0.25, 8
"""Another search begins without this part of the departures, and moves one of this number."""
_SLOPE = 0.04
"""Change of a parameter's logarithm by which slopes are found."""
_MOVE, _DEPENDS = 1.2, 0.02
"""Change of a parameter, and of a time that depends on it."""
_HOISTED = 6
"""Children of a level whose departures are tried on the level itself."""

Variable = tuple[str, str, str]
"""Level, member and parameter of a departure."""
Member = tuple[str, str]
"""Level and member."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Knowledge of a parameter before any measurement. Times in us."""

    centre: float
    spread: float
    """Scale of the Laplace prior of its logarithm at a level whose factor is 1."""
    low: float
    """Bounds of physics."""
    high: float

    def within(self, value: float) -> float:
        """The nearest value within the bounds."""
        return min(max(value, self.low), self.high)


@dataclass(frozen=True, slots=True)
class Observed:
    """A sweep, and the levels of each of its parameters from the widest to the machine."""

    case: Case
    source: str
    machine: str
    """Sweeps of a source on one machine and of one collective share their weight."""
    chains: Mapping[str, tuple[Member, ...]]
    bands: tuple[int, ...]
    """The size band of each point."""
    scales: tuple[float, ...] = SCALES
    """Error that counts as one in each size band."""


@dataclass(slots=True)
class Levels:
    """A fit of departures to sweeps."""

    observed: Sequence[Observed]
    priors: Mapping[str, Prior]
    spreads: Mapping[str, float]
    """Factor of each level on the spread of its departures."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Departures that several parameters share, such as all latencies of a network."""
    like: Mapping[str, str] = field(default_factory=dict)
    """Parameters that have the departures of another one, and perhaps more levels."""
    given: Mapping[Variable, float] = field(default_factory=dict)
    """Departures that are known and not fitted: what makers state. A chain may begin with one."""
    departures: dict[Variable, float] = field(default_factory=dict)
    least: float = math.inf
    """The lowest sum that the search found."""
    parts: dict[Variable, Variable] = field(default_factory=dict)
    """Departures that are only a part of another one, which was divided."""
    _users: dict[Variable, list[int]] = field(default_factory=dict)
    _sums: list[list[tuple[str, Prior, tuple[Variable, ...]]]] = field(default_factory=list)
    """Parameters of each sweep, and the departures that add up to each."""
    _children: dict[Variable, list[Variable]] = field(default_factory=dict)
    _costs: list[float] = field(default_factory=list)
    _behind: dict[Variable, list[int]] = field(default_factory=dict)
    """The sweeps behind departures, as far as they were asked for with these departures."""
    _weights: list[list[float]] = field(default_factory=list)
    """Weights of the points of each sweep."""
    _logs: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        alike = Counter(map(_same, self.observed))
        self._weights = [_weights(each, alike[_same(each)]) for each in self.observed]
        self._logs = [[math.log(us) for us in each.case.measured] for each in self.observed]
        for at, each in enumerate(self.observed):
            self._sums.append(
                [
                    (
                        f"library.{key}",
                        self.priors[key],
                        tuple((*member, name) for member in chain for name in self._names(key)),
                    )
                    for key, chain in each.chains.items()
                ]
            )
            for key, chain in each.chains.items():
                for name in self._names(key):
                    variables = [(*member, name) for member in chain]
                    for variable in variables:
                        users = self._users.setdefault(variable, [])
                        if users[-1:] != [at]:
                            users.append(at)
                    for above, below in pairwise(variables):
                        children = self._children.setdefault(above, [])
                        if below not in children:
                            children.append(below)
        self._costs = [self._cost(at) for at in range(len(self.observed))]

    def _names(self, key: str) -> list[str]:
        """The parameter, or the one that it is like, and the groups that it is in."""
        own = self.like.get(key, key)
        return [own, *(name for name, keys in self.groups.items() if own in keys)]

    def value(self, key: str, chain: Iterable[Member], hosts: bool = False) -> float:
        """A parameter of a machine with these levels: us, or a part."""
        prior = self.priors[key]
        variables = [
            (*member, name)
            for member in chain
            if hosts or member[0] != HOST
            for name in self._names(key)
        ]
        log = math.log(prior.centre) + sum(map(self._departure, variables))
        return prior.within(math.exp(log))

    def _departure(self, variable: Variable) -> float:
        return self.departures.get(variable, self.given.get(variable, 0.0))

    def values(self, observed: Observed, hosts: bool = False) -> dict[str, float]:
        """All parameters of a machine by key."""
        return {
            f"library.{key}": self.value(key, chain, hosts)
            for key, chain in observed.chains.items()
        }

    def logs(self, observed: Observed) -> list[float]:
        """ln(measured / predicted) of each point, without what is the host's own."""
        made = observed.case.times(self.values(observed))
        return [math.log(us / ours) for us, ours in zip(observed.case.measured, made, strict=True)]

    def begin(self, departures: Mapping[Variable, float]) -> Levels:
        """Sets the departures to begin with, of those that the sweeps have. Returns itself."""
        self._set({key: value for key, value in departures.items() if key in self._users})
        self._costs = [self._cost(at) for at in range(len(self.observed))]
        return self

    def say(self, variable: Variable, source: str) -> float:
        """The part of the sweeps behind a departure that a source has: of those that depend on it.
        Where there is no departure, of those that have the parameter."""
        if variable not in self._behind:
            depending = self.constraining(variable) if variable in self.departures else ()
            self._behind[variable] = list(depending) or self._users[variable]
        users = self._behind[variable]
        return sum(self.observed[at].source == source for at in users) / len(users)

    def touched(self, source: str, least: float) -> set[Variable]:
        """The departures of whose sweeps a source has at least a part."""
        return {each for each in self._users if self.say(each, source) >= least}

    def search(self, near: bool = False, moving: Collection[Variable] | None = None) -> Levels:
        """Finds the departures with the lowest sum (`least`), undivided; of those that `moving`
        has, if it is given. It may look only near those that it begins with. Returns itself."""
        wanted = [each for each in self._free() if moving is None or each in moving]
        for sharpness in _SHARPNESS[1:] if near else _SHARPNESS:
            self._together(wanted, sharpness)
        for _ in range(_PASSES):
            gain = sum(self._improve(variable) for variable in self._promising(wanted))
            gain += self._together([each for each in wanted if each in self.departures])
            if gain < _ENOUGH:
                break
        self.least = self._sum(self.departures)
        return self

    def _free(self) -> list[Variable]:
        """The departures that are fitted."""
        known = {variable[:2] for variable in self.given}
        return [variable for variable in self._users if variable[:2] not in known]

    def divide(self) -> Levels:
        """Gives departures that one member of a level bears out partly to it, and partly to the
        level, whichever of the two the search chose. Returns itself."""
        for level in reversed(list(self.spreads)):
            for variable in [each for each in self._users if each[0] == level]:
                self._hoist(variable)
        for level in self.spreads:
            for variable in [each for each in self._users if each[0] == level]:
                if variable in self.departures:
                    self._divide(variable)
        return self

    def shaken(self, seed: int) -> dict[Variable, float]:
        """Departures to begin another search with: without a quarter of these, and with others,
        drawn by a fixed generator."""
        draw = random.Random(seed)
        found = {each: was for each, was in self.departures.items() if draw.random() > _DROPPED}
        free = self._free()
        for each in draw.sample(free, len(free) // _MOVED):
            found[each] = found.get(each, 0.0) + draw.uniform(-_STEPS[0], _STEPS[0])
        return found

    def _together(self, moving: Sequence[Variable], sharpness: float | None = None) -> float:
        """Moves departures together while that lowers the sum, with a rounded spike if `sharpness`
        is given, and with those that are zero kept otherwise. Returns by how much."""
        begin = least = self._sum(moving, sharpness)
        reach = _REACH
        for _ in range(_ROUNDS):
            before = [self.departures.get(each, 0.0) for each in moving]
            best = self._slopes(moving).best(before, self._prices(moving, sharpness), reach)
            for part in (1.0, 0.5, 0.25):
                steps = zip(moving, before, best, strict=True)
                self._place({each: old + part * (float(new) - old) for each, old, new in steps})
                now = self._sum(moving, sharpness)
                if now < least - _LITTLE:
                    reach *= 1.0 if part == 1.0 else 0.5
                    least = now
                    break
            else:
                self._place(dict(zip(moving, before, strict=True)))
                reach /= 3
                if reach < _NEAR:
                    break
        return begin - least

    def _promising(self, variables: Sequence[Variable]) -> list[Variable]:
        """Departures that are not zero, or that may be worth their price: those that bring the
        points on which they have an effect nearer by more than that."""
        step, effects = _STEPS[0], self._slopes(variables).effects(len(variables))
        return [
            variable
            for variable, effect in zip(variables, effects, strict=True)
            if variable in self.departures or effect * step > self._price(variable, step)
        ]

    def _place(self, departures: Mapping[Variable, float]) -> None:
        """Sets departures whether that improves the sum or not."""
        self._set(departures)
        self._costs = [self._cost(at) for at in range(len(self.observed))]

    def _sum(self, moving: Iterable[Variable], sharpness: float | None = None) -> float:
        """Objective of the fit, as far as it depends on these departures."""
        prices = (self._price(each, self.departures.get(each, 0.0), sharpness) for each in moving)
        return sum(self._costs) + sum(prices)

    def _prices(self, moving: Iterable[Variable], sharpness: float | None) -> list[float]:
        """How the price of each departure rises with it, where it is."""
        found = []
        for each in moving:
            spread, spike = self._spread(each[0], each[2]), 0.0
            if sharpness is not None:
                away = abs(self.departures.get(each, 0.0)) + sharpness * spread
                spike = _spike(each[0]) / away
            found.append(1 / spread + spike)
        return found

    def _slopes(self, moving: Sequence[Variable]) -> Slopes:
        """How each point changes with each of these departures."""
        columns = {variable: at for at, variable in enumerate(moving)}
        had, found = {**self.given, **self.departures}, Slopes()
        for at, each in enumerate(self.observed):
            values = self._values(at)
            logs = [math.log(us) for us in each.case.times(values)]
            misses = [ours - theirs for ours, theirs in zip(logs, self._logs[at], strict=True)]
            first = found.add(misses, self._weights[at])
            for key, prior, summed in self._sums[at]:
                mine = [columns[variable] for variable in summed if variable in columns]
                value = prior.centre * math.exp(sum(had[v] for v in summed if v in had))
                less, more = (prior.within(value * math.exp(by)) for by in (-_SLOPE, _SLOPE))
                if mine and less < more:
                    low, high = (each.case.times(values | {key: to}) for to in (less, more))
                    slopes = [
                        math.log(b / a) / (2 * _SLOPE) for a, b in zip(low, high, strict=True)
                    ]
                    found.depend(first, slopes, mine)
        return found

    def _hoist(self, variable: Variable) -> None:
        """Takes a departure from the member that alone bears it out to the level above."""
        for own in [each for each in self._children.get(variable, []) if each[0] != HOST]:
            moved = self.departures.get(own)
            if moved and self._alone(variable, moved) == own[:2]:
                self._set({variable: self._departure(variable) + moved, own: 0.0})

    def _alone(self, variable: Variable, more: float = 0.0) -> Member | None:
        """The member of the next level that alone bears out a departure, if there is one; and that
        would if the departure had `more`."""
        below = {self._below(at, variable) for at in self.constraining(variable, more)}
        return below.pop() if len(below) == 1 else None

    def _divide(self, variable: Variable) -> None:
        """Gives a departure that one member of its level bears out partly to this member."""
        level, _, name = variable
        own = None if level == HOST else self._alone(variable)
        if own is None:
            return
        departure = self.departures[variable]
        here, there = (self._density(each, name, departure) for each in (level, own[0]))
        part = departure * here / (here + there)
        self.departures[variable] = part
        moved = (*own, name)
        if moved not in self.departures:
            self.parts[moved] = variable
        self._set({moved: self.departures.get(moved, 0.0) + departure - part})

    def _below(self, at: int, variable: Variable) -> Member | None:
        """The member of the next level in the chain of a sweep; `None` at its end."""
        level, member, name = variable
        chain = next(
            [each for each in chain if each[0] != HOST]
            for key, chain in self.observed[at].chains.items()
            if name in self._names(key) and (level, member) in chain
        )
        place = chain.index((level, member)) + 1
        return chain[place] if place < len(chain) else None

    def _density(self, level: str, name: str, departure: float) -> float:
        """Prior density of a departure (Laplace), but for a factor that all levels share."""
        spread = self._spread(level, name)
        return math.exp(-abs(departure) / spread) / spread

    def _spread(self, level: str, name: str) -> float:
        """Scale of the prior of a departure."""
        first = self.groups[name][0] if name in self.groups else name
        return self.priors[first].spread * self.spreads[level]

    def constraining(self, variable: Variable, more: float = 0.0) -> dict[int, int]:
        """The sweeps whose times depend on a departure, and how many of their points do."""
        found = {}
        for at in self._users[variable]:
            if count := sum(self._depends(at, variable, more)):
                found[at] = count
        return found

    def _depends(self, at: int, variable: Variable, more: float = 0.0) -> list[bool]:
        """Whether each point of a sweep depends on a departure: its time changes by a fiftieth or
        more when the parameter does by a fifth, without the departure, or with `more` of it."""
        each, name = self.observed[at], variable[2]
        values = self._values(at)
        keys = [f"library.{key}" for key in each.chains if name in self._names(key)]
        made = each.case.times(values)
        moved = [False] * len(made)
        without = -self.departures.get(variable, 0.0)
        for by in (1 / _MOVE, _MOVE, math.exp(without), math.exp(more)):
            times = each.case.times(values | {key: values[key] * by for key in keys})
            moved = [
                seen or abs(new / old - 1) >= _DEPENDS
                for seen, new, old in zip(moved, times, made, strict=True)
            ]
        return moved

    def _improve(self, variable: Variable) -> float:
        gain = self._try({variable: 0.0}) if variable in self.departures else 0.0
        gain += descend([variable], offsets(*_STEPS), self._step)
        below = [each for each in self._children.get(variable, []) if each in self.departures]
        for child in below[:_HOISTED]:
            there = self.departures.get(child, 0.0)
            here = self.departures.get(variable, 0.0)
            gain += self._try({variable: here + there, child: 0.0})
        return gain + self._hand_down(variable)

    def _step(self, variable: Variable, by: float) -> float:
        return self._try({variable: self.departures.get(variable, 0.0) + by})

    def _hand_down(self, variable: Variable) -> float:
        """Tries to move a departure to one of the members below, and to all of them."""
        children = [each for each in self._children.get(variable, []) if each[0] != HOST]
        if not 1 < len(children) <= _HOISTED:
            return 0.0
        gain = 0.0
        for chosen in (*([child] for child in children), children):
            if here := self.departures.get(variable):
                moved = {child: self.departures.get(child, 0.0) + here for child in chosen}
                gain += self._try({variable: 0.0, **moved})
        return gain

    def _try(self, changes: Mapping[Variable, float]) -> float:
        """Changes departures if that improves the sum, and returns by how much."""
        before = {each: self.departures.get(each, 0.0) for each in changes}
        users = sorted({at for each in changes for at in self._users[each]})
        least = sum(self._costs[at] for at in users)
        least += sum(self._price(*each) for each in before.items())
        self._set(changes)
        total = sum(self._price(*each) for each in changes.items())
        costs: dict[int, float] = {}
        for at in users:
            if total >= least:
                break
            costs[at] = self._cost(at)
            total += costs[at]
        if total < least - 1e-6:
            for at, cost in costs.items():
                self._costs[at] = cost
            return least - total
        self._set(before)
        return 0.0

    def _set(self, changes: Mapping[Variable, float]) -> None:
        self._behind.clear()
        for variable, value in changes.items():
            if value:
                self.departures[variable] = value
            else:
                self.departures.pop(variable, None)

    def _price(self, variable: Variable, departure: float, sharpness: float | None = None) -> float:
        if not departure:
            return 0.0
        level, _, name = variable
        away = abs(departure) / self._spread(level, name)
        rounded = 1.0 if sharpness is None else math.log1p(away / sharpness)
        return _spike(level) * rounded + away

    def _values(self, at: int) -> dict[str, float]:
        """All parameters of a sweep's machine with its host."""
        had = {**self.given, **self.departures}
        return {
            key: prior.within(prior.centre * math.exp(sum(had[v] for v in summed if v in had)))
            for key, prior, summed in self._sums[at]
        }

    def _cost(self, at: int) -> float:
        made = self.observed[at].case.times(self._values(at))
        points = zip(self._weights[at], made, self._logs[at], strict=True)
        return sum(weight * abs(math.log(ours) - theirs) for weight, ours, theirs in points)

    def measurements(self, variable: Variable) -> int:
        """How many measured points constrain a departure: their times depend on it."""
        return sum(self.constraining(variable).values())


def _spike(level: str) -> float:
    """Price of a departure however small it is."""
    return _HOST_COST if level == HOST else COST


def _weights(each: Observed, alike: int) -> list[float]:
    """The weight of each point: bands count alike, and sweeps by the square root of how many are
    alike."""
    points = Counter(each.bands)
    return [
        BAND_WEIGHT / each.scales[band] / points[band] / math.sqrt(alike) for band in each.bands
    ]


def _same(each: Observed) -> tuple[str, str, str]:
    return each.source, each.machine, each.case.table.collective
