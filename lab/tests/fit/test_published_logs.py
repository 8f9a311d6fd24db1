"""Fits of `armillary.calibrate` to logs that were published."""

from __future__ import annotations

import math

import armillary as arm
from armillary import nccl
from armillary.calibrate import MeasuredTable, calibrate
from armillary.calibrate.case import cases, parameters
from armillary_lab.measured.sweeps import SEND, MeasuredSweep, sweeps


def test_a_published_log_fits_and_predicts_other_sizes() -> None:
    """Every other size of a measured DGX H100 held out (NVIDIA/dgxc-benchmarking): within 10, 8 and
    3 percent."""
    from armillary_lab.score import collectives

    sweep = next(s for s in collectives.sweeps() if s.name == "h100x8_dgx_allreduce_nvidia")
    fit = calibrate("dgx-h100", [MeasuredTable("", "all_reduce", 8, sweep.points[::2])])
    platform = arm.Platform.load("dgx-h100", fit.settings)
    logs: dict[int, list[float]] = {}
    for size, measured in sweep.points[1::2]:
        count = nccl.element_count("all_reduce", size, 8, 4)
        found = platform._core.library_choice("all_reduce", count * 4)
        assert found is not None
        logs.setdefault(collectives.band(size), []).append(abs(math.log(found[2] / 1e6 / measured)))
    errors = [math.exp(sum(each) / len(each)) - 1 for _, each in sorted(logs.items())]
    assert errors[0] < 0.10 and errors[1] < 0.08 and errors[2] < 0.03


def test_published_sweeps_of_other_collectives_stay_predicted() -> None:
    """Other collectives, on machines whose all-reduces were published too. The presets were fitted
    to both. Fits see every other size."""
    errors: dict[str, list[float]] = {"before": [], "after": []}
    for machine in published_machines():
        reduced = [
            MeasuredTable(s.name, s.collective, s.gpus, s.points[::2])
            for s in machine
            if s.collective == "all_reduce"
        ]
        others = [s for s in machine if s.collective != "all_reduce"]
        fit = calibrate(machine[0].preset, reduced, dict(machine[0].settings))
        for sweep in others:
            (case,) = cases(
                sweep.preset,
                [MeasuredTable(sweep.name, sweep.collective, sweep.gpus, sweep.points)],
                dict(sweep.settings),
            )
            known = parameters(case.platform)
            after = case.times({key: value for key, value in fit.values.items() if key in known})
            for which, times in (("before", case.times_before()), ("after", after)):
                logs = [
                    abs(math.log(ours / us)) for ours, us in zip(times, case.measured, strict=True)
                ]
                errors[which].append(100 * math.expm1(sum(logs) / len(logs)))
    means = {which: sum(each) / len(each) for which, each in errors.items()}
    assert len(errors["after"]) >= 6
    assert means["after"] < means["before"] + 3, means


def published_machines() -> list[list[MeasuredSweep]]:
    """Machines with all-reduces and other collectives; the many versions on Slingshot are left out
    for time."""
    machines: dict[tuple[object, ...], list[MeasuredSweep]] = {}
    for sweep in sweeps():
        if sweep.fair and sweep.collective != SEND and not sweep.preset.startswith("polaris"):
            source = sweep.source.split("@")[0].split(" ")[0]
            machines.setdefault((source, sweep.preset, sweep.settings, sweep.gpus), []).append(
                sweep
            )
    return [
        found
        for found in machines.values()
        if {s.collective == "all_reduce" for s in found} == {True, False}
    ]
