"""Result of a run: the report as tables and as JSON."""

from __future__ import annotations

import json
import os
from functools import cached_property
from typing import TYPE_CHECKING, get_type_hints

from . import files, kept_runs, polars_extra
from .errors import InputError, Problem
from .schema import (
    Class,
    Detail,
    Dimension,
    Large,
    LayerPass,
    LayerPhase,
    Link,
    Operation,
    Outside,
    Phase,
    Report,
)
from .step_parts import PARTS
from .units import NS_PER_S, PS_PER_NS, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from .explain import Comparison, Explanation, Verdict
    from .repeat import Again
    from .report.rates import Rates
    from .uncertainty import Interval

_NO_ROOFLINE = ',\n  "roofline": null'
"""The end of the core's report, which knows no models."""


class Result:
    """Result of a run. Tables are polars DataFrames; times are nanoseconds, shares 0..1."""

    def __init__(
        self,
        core: kept_runs.Outcome,
        again: Again | None = None,
    ) -> None:
        self._core = core
        self._again = again
        self._verdicts: dict[bool, Verdict] = {}

    def again(
        self,
        settings: Mapping[str, str],
        detail: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> Report:
        """The report of the same run with some values of the platform set, and some `options` of
        its model changed. Raises `InputError`, also for options of a workload that was not made of
        a model by its name, and `StalledError`."""
        if self._again is None:
            raise InputError(
                [
                    Problem(
                        "",
                        "again",
                        "the result does not say how it was made",
                        "Result of simulate",
                    )
                ]
            )
        return self._again(settings, detail, options or {})

    @cached_property
    def report(self) -> Report:
        """The whole report as a dictionary (schema `armillary.report/1`)."""
        from .explain import dlrm_parts

        report: Report = json.loads(self._core.report())
        report["roofline"] = dlrm_parts.of(report)
        return report

    @property
    def step_time_ns(self) -> float:
        """End of the last rank, ns."""
        return self.report["step_time_ns"]

    @cached_property
    def interval(self) -> Interval | None:
        """Factors on the step time between which 80 % of measured steps like this one should lie,
        from sources that no fit has seen; nothing where no such steps were measured
        (docs/models/uncertainty.md)."""
        from .explain import step_interval

        return step_interval.interval(self.report)

    @property
    def step_time_s(self) -> float:
        """End of the last rank, s."""
        return self.step_time_ns / NS_PER_S

    @cached_property
    def rates(self) -> Rates | None:
        """Samples, tokens and operations a second, MFU and HFU; nothing where operations were not
        counted."""
        from .report import rates, reading

        config = reading.asked(self.report)
        return rates.of(
            config["workload"].get("summary"),
            self.step_time_ns,
            config["platform"]["npu"]["peak_flops"],
            rates.at_peak_ns(self.report["classes"]),
        )

    @property
    def samples_per_s(self) -> float | None:
        """Samples (sequences, images) a second of all NPUs together, where the workload says its
        batch."""
        return self.rates.samples if self.rates else None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens a second of all NPUs together; nothing where samples are not sequences."""
        return self.rates.tokens if self.rates and self.rates.tokens else None

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation, 0..1: operations of the model over what the NPUs could do in the
        step."""
        return self.rates.utilisation if self.rates and self.rates.utilisation else None

    @property
    def hfu(self) -> float | None:
        """Hardware FLOPs utilisation, 0..1: the operations that run, each at the peak of its number
        format, over the step. Masked parts that kernels skip do not count, and what is computed
        again does. Nothing where durations do not come from a model of the NPU."""
        return self.rates.hardware if self.rates and self.rates.hardware else None

    @property
    def cost(self) -> dict[str, int]:
        """Cost of the run: `simulated_ranks` (fewer than all ranks when it was folded) and
        `events`."""
        return {"simulated_ranks": self._core.simulated_ranks, "events": self._core.events}

    @property
    def timeline(self) -> dict[str, int] | None:
        """Content of the timeline, if there is one: `shown` of `simulated` ranks, and the number of
        `packets`."""
        timeline = self._core.timeline
        return (
            None
            if timeline is None
            else dict(zip(("shown", "simulated", "packets"), timeline, strict=True))
        )

    @property
    def warnings(self) -> list[str]:
        """Models used outside their validity, settings without effect, oddities of the input."""
        return self.report["warnings"]

    @property
    def fits(self) -> str | None:
        """Whether the workload fits the memory of its NPUs: `yes`, `no`, or `near` where what it
        needs is closer to the capacity than predictions are exact; `None` where that is unknown
        (docs/models/memory.md)."""
        return self.report["fits"]

    @property
    def outside(self) -> list[Outside]:
        """Contents of memories outside of the NPUs, one row for each kind of memory."""
        return self.report["outside"]

    def breakdown(self) -> pl.DataFrame:
        """Where the step time goes, one row per class of ranks that behave alike.

        Each part of `armillary.step_parts.PARTS` as its time (`compute_ns`, `exposed_comm_ns`, ...,
        `idle_ns`) and as its share of the step (`compute_share`, ...)."""
        polars_extra.require()
        import polars as pl

        frame = pl.DataFrame(self.report["classes"], schema=columns(Class))
        step = self.step_time_ns or 1.0  # nothing ran: every share is zero
        return frame.with_columns(
            *((pl.col(part.field) / step).alias(_share(part.field)) for part in PARTS)
        )

    def operations(self) -> pl.DataFrame:
        """Operations by pattern of names, over all ranks, the most costly first, at most 1,000."""
        polars_extra.require()
        import polars as pl

        return pl.DataFrame(self.report["operations"], schema=columns(Operation))

    def dimensions(self) -> pl.DataFrame:
        """Use of the network, one row a dimension, innermost first."""
        polars_extra.require()
        import polars as pl

        return pl.DataFrame(self.report["dimensions"], schema=columns(Dimension))

    def phases(self) -> pl.DataFrame:
        """Mean queueing and network time of each phase position of the collectives."""
        polars_extra.require()
        import polars as pl

        return pl.DataFrame(self.report["phases"], schema=columns(Phase))

    def layers(self) -> pl.DataFrame:
        """Each layer in each pass on the first rank of each class: compute, raw and exposed
        communication.

        A run without detail is repeated once with it, as in `explain`."""
        polars_extra.require()
        import polars as pl

        rows = [
            {"rank_class": layer["rank_class"], "layer": layer["layer"], **each}
            for layer in self._logged["layers"]
            for each in layer["passes"]
        ]
        named = {"rank_class": pl.Int64, "layer": pl.String}
        return pl.DataFrame(rows, schema={**named, **columns(LayerPass)})

    def layer_phases(self) -> pl.DataFrame:
        """Mean queue and network time of chunks by layer, pass and phase, over all ranks.

        A run without detail is repeated once with it, as in `explain`."""
        polars_extra.require()
        import polars as pl

        return pl.DataFrame(self._logged["layer_phases"], schema=columns(LayerPhase))

    def links(self) -> pl.DataFrame:
        """The busiest links (link backend), at most 20."""
        polars_extra.require()
        import polars as pl

        return pl.DataFrame(self.report["links"], schema=columns(Link))

    def ranks(self) -> pl.DataFrame:
        """Every rank: `rank`, `finish_ns`, and `finish_minus_compute_ns` (ASTRA-sim's "exposed
        communication")."""
        polars_extra.require()
        import polars as pl

        finish = pl.Series("finish_ns", self._core.finish_ps(), dtype=pl.UInt64)
        exposed = pl.Series(
            "finish_minus_compute_ns", self._core.finish_minus_compute_ps(), dtype=pl.UInt64
        )
        return (
            pl.DataFrame([finish, exposed])
            .with_columns(pl.all() / PS_PER_NS)
            .with_row_index("rank")
        )

    def explain(
        self, node: str | None = None, *, what_if: bool = True, seconds: float = 20.0
    ) -> Explanation:
        """Why the step, or what `node` means, takes its time.

        `node` is an id, `rank:id`, a name, a kind such as `all_reduce`, or a pattern of names. With
        `what_if` the run is repeated with one thing changed at a time, for about `seconds`. A run
        without detail is repeated once with it; `simulate(..., detail=True)` saves that. Raises
        `InputError` for a node that is not there, and for a run without detail that can't be
        repeated."""
        from .explain import explain

        return explain(
            self._detailed, node, again=self._again if what_if else None, seconds=seconds
        )

    @cached_property
    def _detailed(self) -> Report:
        """The report with the detail, of the run repeated where it had none."""
        if self.report["detail"] is None and self._again is not None:
            return self._again({}, True, {})
        return self.report

    @property
    def _logged(self) -> Detail:
        """The detail of the report. Raises `InputError` where there is none."""
        detail = self._detailed["detail"]
        if detail is None:
            raise InputError(
                [Problem("", "detail", "this run has no detail", "simulate(..., detail=True)")]
            )
        return detail

    def compare(self, *others: Result) -> Comparison:
        """Differences between this run and each of `others`, and their causes; see
        `armillary.compare`."""
        from .explain import compare

        return compare([self.report, *(other.report for other in others)])

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The report as JSON text, the same bytes for the same input; also written to `path`, whole
        or not at all."""
        roofline = json.dumps(self.report["roofline"], indent=2).replace("\n", "\n  ")
        core = self._core.report().removesuffix("\n}").removesuffix(_NO_ROOFLINE)
        text = f'{core},\n  "roofline": {roofline}\n}}'
        if path is not None:
            files.write_text(path, text)
        return text

    def verdict(
        self, *, what_if: bool = True, progress: Callable[[float, float], None] | None = None
    ) -> Verdict:
        """Limit of the step, the most helpful change, and its effect: `.sentence`, and `.facts` as
        data.

        After `simulate(detail=True)` and with `what_if` the run is repeated up to six times, fewer
        where it takes long."""
        from .explain.verdict import verdict

        if what_if not in self._verdicts:
            self._verdicts[what_if] = verdict(
                self.report, self._again if what_if else None, progress
            )
        return self._verdicts[what_if]

    def html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        what_if: bool = True,
        progress: Callable[[float, float], None] | None = None,
    ) -> str:
        """The report as one HTML page that needs nothing else; also written to `path`, whole or not
        at all.

        Layers, activity over time and the critical path are in it after `simulate(detail=True)`;
        with `what_if` also what would help most, for which the run is repeated a few times."""
        from .explain import step_interval
        from .report import run_page

        said = self.verdict(what_if=what_if, progress=progress).sentence
        text = run_page.page(self.report, said, step_interval.sentence(self.report) or "").html()
        if path is not None:
            files.write_text(path, text)
        return text

    def figures(self, directory: str | os.PathLike[str]) -> list[str]:
        """Writes the charts of the report into `directory`, which is made, as SVG, PNG and CSV;
        returns the names."""
        from .report import page, run_page

        return page.write_figures(directory, run_page.page(self.report).figures())

    def _repr_html_(self) -> str:
        """Summary for notebooks: the headline, and where the time goes."""
        from .report import run_page

        return run_page.glance(self.report)

    def __repr__(self) -> str:
        from .report import reading
        from .report.quantity import rate, share, time

        config = reading.asked(self.report)
        summary = config["workload"].get("summary")
        name = summary.model if summary else config["workload"].get("traces") or "workload"
        parts = [f"{name} on {config['platform']['name']}", counted(self.report["ranks"], "rank")]
        parts += [f"step time {time(self.step_time_ns)}"]
        parts += [f"{rate(self.samples_per_s)} samples/s"] if self.samples_per_s else []
        parts += [f"MFU {share(self.mfu)}"] if self.mfu else []
        parts += [counted(len(self.warnings), "warning")] if self.warnings else []
        return f"<Result: {', '.join(parts)}>"


def _share(field: str) -> str:
    return f"{field.removesuffix('_ns')}_share"


def columns(row: type) -> dict[str, type[pl.DataType]]:
    """Column types of a row type: an empty table then has the same columns as a full one."""
    import polars as pl

    kinds: dict[object, type[pl.DataType]] = {
        str: pl.String,
        int: pl.Int64,
        float: pl.Float64,
        bool: pl.Boolean,
    }
    kinds |= {Large: pl.Int128, list[float]: pl.List, list[str]: pl.List, float | None: pl.Float64}
    kinds |= {str | None: pl.String, int | None: pl.Int64}
    return {name: kinds[kind] for name, kind in get_type_hints(row, include_extras=True).items()}
