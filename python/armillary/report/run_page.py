"""The page of a run: headline, where the time goes and why, how the machine is used.

Here: which sections it has, in which order, and the headline. Not here: the sections
(`run_where.py`, `run_time.py`, `run_work.py`, `run_layers.py`, `run_network.py`,
`platform_picture.py`), HTML (`markup.py`). A page is made of the report alone: its JSON makes it
again."""

from __future__ import annotations

from collections.abc import Iterator

from ..schema import Report
from ..units import GB, PS_PER_NS, counted
from ..workload import Summary
from . import (
    names,
    rates,
    roofline,
    run_layers,
    run_network,
    run_passes,
    run_time,
    run_where,
    run_work,
)
from .page import Fact, Page, Section, Table, fragment
from .platform_picture import picture
from .quantity import bandwidth, number, operations, share, size, time
from .reading import Asked, Machine, asked
from .scale import Scale

_NO_DETAIL = (
    "This report has no detail: layers, activity over time and the critical path. Runs with "
    "--report or --json have it, and simulate(detail=True)."
)


def page(report: Report, verdict: str = "", interval: str = "") -> Page:
    """The page of a report; `verdict` is the sentence below its title, `interval` says between
    which times measured steps like this one lie.

    Raises `msgspec.ValidationError` where its configuration is that of no report.
    """
    config = asked(report)
    summary = config["workload"].get("summary")
    return Page(
        title=names.title(config),
        lead=" ".join(filter(None, (_lead(report, config), interval and f"{interval}."))),
        facts=list(_facts(report, config, summary)),
        warnings=report["warnings"],
        sections=list(_sections(report, config, summary)),
        footer=_footer(report),
        verdict=verdict,
        unit=Scale.of(report["step_time_ns"]),
    )


def glance(report: Report) -> str:
    """Headline, warnings and where the time goes, as HTML for a notebook."""
    config = asked(report)
    facts = [
        f"{fact.label} {fact.value}"
        for fact in _facts(report, config, config["workload"].get("summary"))
    ]
    warnings = [f"Warning: {warning}" for warning in report["warnings"]]
    where = run_where.by_class(report, Scale.of(report["step_time_ns"]))
    return fragment([*warnings, ", ".join(facts), *where.parts])


def _lead(report: Report, config: Asked) -> str:
    traces, summary = config["workload"].get("traces"), config["workload"].get("summary")
    said = (
        f"A training step on {counted(report['ranks'], 'NPU')}, network model: {config['backend']}."
    )
    origin = (
        summary.model
        if summary and names.is_recorded(summary)
        else traces
        if summary is None
        else ""
    )
    return f"{said} Traces: {origin}." if origin else said


def _facts(report: Report, config: Asked, summary: Summary | None) -> Iterator[Fact]:
    step = report["step_time_ns"]
    yield Fact("Step time", time(step), main=True)
    peak = config["platform"]["npu"].get("peak_flops")
    found = rates.of(summary, step, peak, rates.at_peak_ns(report["classes"]))
    if found:
        yield from _rates(found)
    mean, total = run_where.mean(report["classes"]), step or 1.0
    for part, (field, _) in run_where.present(run_where.PARTS, [mean]).items():
        yield Fact(part.capitalize(), share(mean[field] / total), "of the step, mean rank")
    if held := report.get("memory_bytes"):
        capacity = config["platform"]["npu"].get("memory_capacity_bytes")
        note = f"of an NPU's {size(capacity)}" if capacity else "of an NPU"
        yield Fact("Peak memory", size(held), f"{note}{_FITS.get(report.get('fits') or '', '')}")


_FITS = {"near": ": may not fit", "no": ": does not fit"}


def _rates(found: rates.Rates) -> Iterator[Fact]:
    if found.tokens:
        yield Fact("Tokens/s", _rate(found.tokens), main=True)
    if found.utilisation:
        note = (
            "more than kernels reach: the NPU's efficiencies are missing"
            if found.is_optimistic
            else ""
        )
        yield Fact("MFU", share(found.utilisation), note or "of the NPUs' peak", main=True)
        if found.hardware:
            yield Fact("HFU", share(found.hardware), "what runs, at its own peak", main=True)
    yield Fact("Samples/s", _rate(found.samples), main=not found.tokens)
    yield Fact("Achieved", f"{operations(found.flops)}/s", "of an NPU")


def _rate(value: float) -> str:
    return f"{value:,.1f}" if value < 10_000 else f"{value:,.0f}"


def _sections(report: Report, config: Asked, summary: Summary | None) -> Iterator[Section]:
    scale, detail = Scale.of(report["step_time_ns"]), report["detail"]
    yield run_where.by_class(report, scale)
    if detail:
        yield run_time.over_time(report, detail, scale)
        yield run_work.critical_path(report, detail, scale)
    else:
        yield Section("Layers, time, critical path", [_NO_DETAIL])
    yield run_work.operations(report)
    if detail and detail["layers"]:
        yield run_layers.by_layer(report, detail, scale)
    if report["roofline"]:
        yield roofline.section(report["roofline"])
    yield run_network.network(report, detail, scale)
    yield run_network.phases(report)
    waits = run_passes.waits(detail, scale) if detail else None
    if waits:
        yield waits
    held = run_work.memory(report, summary, config["platform"]["npu"], scale)
    if held:
        yield held
    assumed = [f"Assumed: {text}." for text in report["assumptions"]]
    busy = [dim["link_busy_ns"] for dim in report["dimensions"]]
    sends = [dim["link_sends"] for dim in report["dimensions"]]
    bin_ns = report["network"]["bin_ns"] if report["network"] else None
    step_ns = report["step_time_ns"]
    drawn = picture(config["platform"], report["picture"], step_ns, busy, sends, bin_ns)
    yield Section("Platform", [*assumed, drawn, _machine(config["platform"])])


def _machine(machine: Machine) -> Table:
    """The platform in numbers."""
    npu = machine["npu"]
    rows = [["NPUs", number(machine["npus"])], ["NPU", npu.get("name") or ""]]
    if peak := npu.get("peak_flops"):
        rows.append(["Peak of an NPU", f"{operations(peak)}/s"])
    if capacity := npu.get("memory_capacity_bytes"):
        rows.append(["Memory of an NPU", size(capacity)])
    if speed := npu.get("memory_bandwidth"):
        rows.append(["Memory bandwidth of an NPU", bandwidth(speed / GB)])
    for i, dim in enumerate(machine["fabric"].get("dims") or [], 1):
        link, delay = (
            bandwidth(dim["link_bandwidth"] / GB),
            time(dim["link_latency_ps"] / PS_PER_NS),
        )
        rows.append(
            [f"Dimension {i}, {dim['block']}({number(dim['size'])})", f"{link} a link, {delay}"]
        )
    return Table(machine["name"], ["Property", "Value"], rows)


def _footer(report: Report) -> str:
    counts = report["counts"]
    work = (
        f"{counted(counts['operations'], 'operation')}, {counted(counts['transfers'], 'transfer')}"
    )
    return f"Armillary {report['version']}; {work}; digest {report['digest']}."
