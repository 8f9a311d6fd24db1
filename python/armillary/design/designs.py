"""Results of a design run: the ranked table, JSON, the winner's platform file. Not here: pages and
figures (`charts.py`), which `result.py` adds.

Not here: pages and figures (`charts.py`), which `result.py` adds."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .. import _core, files, polars_extra
from ..errors import InputError, Problem
from ..platform import Platform
from ..report.chart import to_csv
from ..units import GB
from . import check, curves, memory_cost
from .check import Check
from .curves import BandwidthShare
from .rank import Order, SimulatedDesign
from .search import Found
from .solving import Design
from .task import Task

_BY_TIME = ("step_time", "performance_per_cost")
"""Objectives whose errors are those of the step time."""

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "armillary.design/2"


@dataclass(frozen=True, eq=False)
class Designs:
    """The best designs, ranked by simulation, with what is known of that order and of the
    model's."""

    task: Task
    found: Found
    """Designs in the order of the model."""
    order: Order
    """Designs in the order of the simulator."""

    @cached_property
    def designs(self) -> tuple[Design, ...]:
        """Those that were simulated, best first, then the others in the model's order; of a front
        cheapest first."""
        tried = [each.design for each in self.order.trials]
        known = {(id(each.choice), each.topology) for each in tried}
        front = self.task.objective == "pareto"
        rest = [
            each
            for each in self.found.designs
            if front or (id(each.choice), each.topology) not in known
        ]
        return tuple(rest if front else (*tried, *rest[: max(0, self.task.top - len(tried))]))

    @property
    def checks(self) -> tuple[tuple[Check, ...], ...]:
        """Simulations of the first designs, in their order."""
        return tuple(each.checks for each in self.order.trials)

    @property
    def best(self) -> Design:
        """The best design by simulation, by the model where none was simulated; of a front the
        cheapest."""
        return self.designs[0]

    def platform(self, rank: int = 0, scheme: str = curves.OPTIMAL) -> Platform:
        """A design as a platform, with the bandwidths of a scheme. Raises `InputError` for a rank
        or a scheme that isn't there."""
        return check.platform(self.task, self._shared(rank, scheme))

    def platform_file(self, rank: int = 0, scheme: str = curves.OPTIMAL) -> str:
        """The platform file of a design, with its origin."""
        return self._named(rank, scheme).to_yaml()

    def write_platform(
        self, path: str | os.PathLike[str], rank: int = 0, scheme: str = curves.OPTIMAL
    ) -> None:
        """Writes the platform file of a design. Raises `InputError`."""
        files.write_text(path, self.platform_file(rank, scheme))

    def write_schemes(self, directory: str | os.PathLike[str], rank: int = 0) -> list[str]:
        """Writes the platform file of each scheme, `SmartBW.yml` and so on, into `directory`; the
        files' names. Raises `InputError`."""
        names = [each.scheme for each in self._shares(rank)]
        with files.directory(directory) as folder:
            for name in names:
                files.write_text(folder / f"{name}.yml", self.platform_file(rank, name))
        return [f"{name}.yml" for name in names]

    def table(self) -> pl.DataFrame:
        """The designs by simulation: `rank`, `model_rank`, `topology`, `bandwidth_gbs` by
        dimension, step times of the model, cost, value, duality gap, simulated step times and
        `model_gap`, simulated over model value less one."""
        polars_extra.require()
        import polars as pl

        return pl.DataFrame(self._rows(), infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data (schema `armillary.design/2`); bandwidths in bytes a second,
        times in seconds."""
        found = self.found
        return {
            "schema": SCHEMA,
            "version": _core.version(),
            "name": self.task.name,
            "objective": self.task.objective,
            "npus": self.task.npus,
            "top": self.task.top,
            "search": {
                "topologies": found.topologies,
                "listed": found.listed,
                "excluded": found.excluded,
                "misplaced": found.misplaced,
                "infeasible": found.infeasible,
                "programs": found.programs,
                "proved": found.proved,
            },
            "order": self._order(),
            "designs": [self._design(index, each) for index, each in enumerate(self.designs)],
            "schemes": [self._scheme(each) for each in self.schemes],
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "prices": self.task.costs.source if self.task.costs else None,
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """`to_dict` as text; also written to `path`."""
        text = json.dumps(self.to_dict(), indent=2) + "\n"
        if path is not None:
            files.write_text(path, text)
        return text

    def to_csv(self) -> str:
        """The table as CSV, bandwidths as `146.4+153.6`."""
        rows = self._rows()
        for row in rows:
            row["bandwidth_gbs"] = "+".join(str(round(each, 6)) for each in row["bandwidth_gbs"])
        return to_csv(rows)

    @cached_property
    def schemes(self) -> list[BandwidthShare]:
        """Distributions of the best design's total bandwidth over its topology by the paper's
        schemes, and the best design itself as `optimal`; simulated, unless `simulate` is 0. Raises
        `StalledError`."""
        found = self._shares(0)
        if not self.task.simulate:
            return found
        return [curves.simulated(self.task, self.best, each) for each in found]

    @property
    def notes(self) -> tuple[str, ...]:
        """Changes that were left out, and the reasons."""
        return (*self.task.notes, *curves.missing(self.schemes))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings and assumptions of the simulations of the best design."""
        trial = self._trial(0)
        checks = trial.checks if trial else ()
        return tuple(dict.fromkeys(warning for each in checks for warning in each.warnings))

    @cached_property
    def curves(self) -> list[BandwidthShare]:
        """The same for the totals that the task varies."""
        return curves.curves(self.task, self.best)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.task.name}: {len(self.designs)} designs, best "
            f"{self.best.topology}>"
        )

    def _at(self, rank: int) -> Design:
        if not 0 <= rank < len(self.designs):
            said = f"there is no design {rank}"
            raise InputError(
                [Problem(self.task.name, "rank", said, f"0 to {len(self.designs) - 1}")]
            )
        return self.designs[rank]

    def _shares(self, rank: int) -> list[BandwidthShare]:
        return curves.shares(self.task, self._at(rank))

    def _shared(self, rank: int, scheme: str) -> Design:
        """A design with the bandwidths of a scheme."""
        design = self._at(rank)
        if scheme == curves.OPTIMAL:
            return design
        found = {each.scheme: each.bandwidth for each in self._shares(rank)}
        if scheme not in found:
            said = f"there is no scheme {scheme!r}"
            raise InputError([Problem(self.task.name, "scheme", said, ", ".join(found))])
        return replace(design, bandwidth=found[scheme], links=())

    def _named(self, rank: int, scheme: str) -> Platform:
        design = self._shared(rank, scheme)
        jobs = ", ".join(job.name for job in design.choice.jobs)
        name = f"{self.task.name}-{rank + 1}"
        what: str = self.task.objective
        if scheme != curves.OPTIMAL:
            name, what = f"{name}-{scheme}", scheme
        source = f"armillary design, {what} of {jobs}"
        return check.platform(self.task, design, {"name": name, "source": source})

    def _rows(self) -> list[dict[str, Any]]:
        return [self._row(index, each) for index, each in enumerate(self.designs)]

    def _row(self, index: int, design: Design) -> dict[str, Any]:
        row: dict[str, Any] = {
            "rank": index + 1,
            "model_rank": self._model_rank(design),
            "topology": str(design.topology),
            "parallelisation": design.choice.name,
        }
        row["bandwidth_gbs"] = [float(each) / GB for each in design.bandwidth]
        row |= {
            f"step_s {model.name}": time
            for model, time in zip(design.models, design.times, strict=True)
        }
        row |= {
            "step_s": design.time,
            "cost": design.cost,
            "value": design.value,
            "gap": design.gap,
        }
        trial = self._trial(index)
        checks = trial.checks if trial else ()
        row |= {
            "simulated_s": trial.time if trial else None,
            "model_gap": trial.ratio - 1 if trial else None,
        }
        for each in (c for some in self.checks for c in some):
            row.setdefault(f"simulated_s {each.workload} {each.backend}", None)
        return row | {
            f"simulated_s {each.workload} {each.backend}": each.simulated for each in checks
        }

    def _scheme(self, share: BandwidthShare) -> dict[str, Any]:
        return {
            "scheme": share.scheme,
            "bandwidth": [float(part) for part in share.bandwidth],
            "step_time": share.time,
            "simulated": share.simulated,
            "utilisation": share.utilisation,
            "cost": share.cost,
            "performance_per_cost": share.performance_per_cost,
            "breaks": list(share.breaks),
        }

    def _design(self, index: int, design: Design) -> dict[str, Any]:
        trial = self._trial(index)
        checks = trial.checks if trial else ()
        return {
            "rank": index + 1,
            "model_rank": self._model_rank(design),
            "topology": str(design.topology),
            "technologies": list(design.stack),
            "parallelisation": design.choice.name,
            "bandwidth": [float(each) for each in design.bandwidth],
            "links": [{"count": each.count, "speed": each.speed} for each in design.links],
            "step_time": {
                model.name: time for model, time in zip(design.models, design.times, strict=True)
            },
            "utilisation": {
                model.name: model.utilisation(design.bandwidth) for model in design.models
            },
            "weighted_step_time": design.time,
            "cost": design.cost,
            "bill": self._bill(design),
            "memory": self._memory(design),
            "value": design.value,
            "bound": design.bound,
            "gap": design.gap,
            "continuous": design.continuous,
            "simulated": self._simulated(trial),
            "shadow_prices": {
                "dimensions": [float(each) for each in design.marginal],
                "constraints": [
                    self._priced(design, name, price) for name, price in design.multipliers.items()
                ],
                "dollar": per_dollar(design),
            },
            "checks": [
                {
                    "workload": each.workload,
                    "backend": each.backend,
                    "model": each.model,
                    "simulated": each.simulated,
                    "gap": each.gap,
                    "effects": dict(each.effects),
                }
                for each in checks
            ],
        }

    def _trial(self, index: int) -> SimulatedDesign | None:
        return self.order.trials[index] if index < len(self.order.trials) else None

    def _model_rank(self, design: Design) -> int | None:
        """Rank of the design from 1; nothing for a design that the model's order was not followed
        to."""
        for index, each in enumerate(self.found.designs):
            same = each.topology == design.topology and each.choice is design.choice
            if same and (self.task.objective != "pareto" or each is design):
                return index + 1
        return None

    def _order(self) -> dict[str, Any]:
        order = self.order
        return {
            "status": order.status,
            "simulated": len(order.trials),
            "excluded": order.excluded,
            "open": order.open,
            "reach": order.reach,
            "room": order.room,
            "alike": order.alike if self.task.objective in _BY_TIME else None,
            "budget": {"designs": self.task.budget, "seconds": self.task.seconds},
        }

    def _simulated(self, trial: SimulatedDesign | None) -> dict[str, Any] | None:
        if trial is None:
            return None
        gap = (
            trial.ratio - 1 if self.task.objective != "cost" else trial.time / trial.design.time - 1
        )
        return {"step_time": trial.time, "value": trial.value, "gap": gap, "late": list(trial.late)}

    def _priced(self, design: Design, name: str, price: float) -> dict[str, Any]:
        """Savings from a change of a limit: one that must be met is raised, any other one
        loosened."""
        limit = next(each for each in design.constraints if each.name == name)
        turned = limit.equal and next((each for each in limit.coefficients if each), 1.0) < 0
        upper = all(each >= 0 for each in limit.coefficients)
        change = "more" if limit.equal or upper else "looser"
        return {
            "name": name,
            "unit": self._unit(name),
            "change": change,
            "saves": -price if turned else price,
        }

    def _unit(self, name: str) -> str:
        """Unit of the quantity that a constraint limits."""
        return next((each.left.unit for each in self.task.written if each.name == name), "B/s")

    def _bill(self, design: Design) -> list[dict[str, Any]]:
        if self.task.costs is None:
            return []
        items = self.task.costs.bill(
            design.topology, design.stack, [float(each) for each in design.bandwidth]
        )
        return [
            {
                "dimension": each.dimension,
                "technology": each.technology,
                "part": each.part,
                "gigabytes_per_s": each.amount,
                "dollars": each.dollars,
                "watts": each.watts,
            }
            for each in items
        ]

    def _memory(self, design: Design) -> list[dict[str, Any]]:
        costs = self.task.costs
        if costs is None or not costs.memory:
            return []
        workloads = [job.workload for job in design.choice.jobs]
        return [
            {"part": each.part, "amount": each.amount, "dollars": each.dollars}
            for each in memory_cost.bill(costs.memory, self.task.pool, workloads)
        ]


def per_dollar(design: Design) -> float | None:
    """Seconds less for another dollar spent where it helps most, if the total bandwidth may grow;
    nothing without prices."""
    if design.price is None:
        return None
    return max(
        (float(m / p) for m, p in zip(design.marginal, design.price, strict=True) if p > 0),
        default=0.0,
    )
