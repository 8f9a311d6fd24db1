"""The page of a run: headline, where the time goes and why, how the machine is used.

Here: which sections it has, in which order, and the headline. Not here: the sections (`run_where.py`, `run_network.py`,
`run_work.py`, `platform_picture.py`), HTML (`page.py`). A page is made of the report alone: its JSON makes
it again.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..schema import Report
from ..workload import Summary
from . import rates, run_network, run_where, run_work
from .page import Fact, Page, Section, Table, fragment
from .platform_picture import picture
from .quantity import bandwidth, counted, number, operations, share, size, time
from .reading import Asked, Machine, asked
from .scale import Scale

_NO_DETAIL = (
    "This run was not logged. Runs with --report or --json are, and simulate(detail=True): their reports have layers, "
    "activity over time and the critical path."
)


def page(report: Report, verdict: str = "") -> Page:
    """The page of a report; `verdict` is the sentence below its title.

    Raises `msgspec.ValidationError` where its configuration is that of no report.
    """
    config = asked(report)
    summary = config["workload"].get("summary")
    return Page(
        title=f"{_workload(config)} on {config['platform']['name']}",
        lead=f"A training step on {counted(report['ranks'], 'NPU')}, network model: {config['backend']}.",
        facts=list(_facts(report, config, summary)),
        warnings=report["warnings"],
        sections=list(_sections(report, config, summary)),
        footer=_footer(report),
        verdict=verdict,
    )


def glance(report: Report) -> str:
    """Headline, warnings and where the time goes, as HTML for a notebook."""
    config = asked(report)
    facts = [f"{fact.label} {fact.value}" for fact in _facts(report, config, config["workload"].get("summary"))]
    warnings = [f"Warning: {warning}" for warning in report["warnings"]]
    where = run_where.by_class(report, Scale.of(report["step_time_ns"]))
    return fragment([*warnings, ", ".join(facts), *where.parts])


def _workload(config: Asked) -> str:
    summary, traces = config["workload"].get("summary"), config["workload"].get("traces")
    return summary.model if summary else traces or "workload"


def _facts(report: Report, config: Asked, summary: Summary | None) -> Iterator[Fact]:
    step = report["step_time_ns"]
    yield Fact("Step time", time(step))
    found = rates.of(summary, step, config["platform"]["npu"].get("peak_flops"))
    if found:
        yield Fact("Samples/s", _rate(found.samples), f"{_rate(found.tokens)} tokens/s" if found.tokens else "")
        if found.utilisation:
            note = "more than kernels reach: the NPU's efficiencies are missing" if found.is_optimistic else ""
            yield Fact("MFU", share(found.utilisation), note or "of the NPUs' peak")
        yield Fact("Achieved", f"{operations(found.flops)}/s", "of an NPU")
    mean, total = run_where.mean(report["classes"]), step or 1.0
    yield Fact("Compute", share(mean["compute_ns"] / total), "of the step, on average")
    yield Fact("Exposed comm.", share(mean["exposed_comm_ns"] / total), "of the step, on average")
    seldom = {
        "Remote memory": "exposed_remote_ns",
        "Local memory": "exposed_local_ns",
        "Launches": "exposed_launch_ns",
        "Host": "exposed_host_ns",
    }
    for part, field in seldom.items():
        if mean[field]:
            yield Fact(part, share(mean[field] / total), "of the step, on average")
    yield Fact("Idle", share(mean["idle_ns"] / total), "of the step, on average")


def _rate(value: float) -> str:
    return f"{value:,.1f}" if value < 10_000 else f"{value:,.0f}"


def _sections(report: Report, config: Asked, summary: Summary | None) -> Iterator[Section]:
    scale, detail = Scale.of(report["step_time_ns"]), report["detail"]
    yield run_where.by_class(report, scale)
    if detail and detail["layers"]:
        yield run_where.by_layer(report, detail, scale)
    if detail:
        yield run_work.critical_path(report, detail, scale)
        yield run_where.over_time(report, detail, scale)
    else:
        yield Section("Layers, time, critical path", [_NO_DETAIL])
    yield run_network.phases(report)
    yield run_network.network(report, detail, scale)
    held = run_work.memory(report, summary, config["platform"]["npu"], scale)
    if held:
        yield held
    yield run_work.operations(report)
    yield Section("Platform", [picture(config["platform"]), _machine(config["platform"])])


def _machine(machine: Machine) -> Table:
    """The platform in numbers."""
    npu = machine["npu"]
    rows = [["NPUs", number(machine["npus"])], ["NPU", npu.get("name") or ""]]
    if peak := npu.get("peak_flops"):
        rows.append(["Peak of an NPU", f"{operations(peak)}/s"])
    if capacity := npu.get("memory_capacity_bytes"):
        rows.append(["Memory of an NPU", size(capacity)])
    if speed := npu.get("memory_bandwidth"):
        rows.append(["Memory bandwidth of an NPU", bandwidth(speed / 1e9)])
    for i, dim in enumerate(machine["fabric"].get("dims") or [], 1):
        link, delay = bandwidth(dim["link_bandwidth"] / 1e9), time(dim["link_latency_ps"] / 1e3)
        rows.append([f"Dimension {i}, {dim['block']}({number(dim['size'])})", f"{link} a link, {delay}"])
    return Table(machine["name"], ["", ""], rows)


def _footer(report: Report) -> str:
    counts = report["counts"]
    work = f"{counted(counts['operations'], 'operation')}, {counted(counts['transfers'], 'transfer')}"
    return f"Armillary {report['version']}; {work}; seed {report['seed']}; digest {report['digest']}."
