"""Simulators in other processes: `--backend external:COMMAND`, the conformance suite on them, and
the table of several network models."""

import json
import shlex
import sys
from pathlib import Path

import pytest

import armillary as arm
from armillary import api, backends
from armillary.cli import app

ROOT = Path(__file__).parents[2]
PYTHON = f"external:{shlex.quote(sys.executable)} -IS"
"""Without packages, which take most of a start: the conformance suite has 70 for a network."""
QUEUES = f"{PYTHON} {shlex.quote(str(ROOT / 'adapters/python/queues.py'))}"
PLATFORM = """
topology: Ring(2)_Switch(3)
links: {bandwidth: 10 GB/s, latency: 500 ns}
scheduler: {chunks: 2}
network: {link: {switching: store_and_forward}}
"""


def main(arguments: list[str]) -> int:
    """The exit code of a command."""
    try:
        return app.main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


@pytest.fixture
def platform(tmp_path: Path) -> str:
    file = tmp_path / "p.yml"
    file.write_text(PLATFORM)
    return str(file)


@pytest.mark.parametrize("kind", ["all_reduce", "all_to_all", "broadcast"])
def test_a_collective_takes_the_time_of_the_same_model_inside(platform: str, kind: str) -> None:
    """The example is the link-queue model with store and forward."""
    target = arm.Platform.load(platform)
    table = [arm.collective(kind, 600_000, target, backend=name) for name in ("link", QUEUES)]
    assert table[0]["time_us"][0] == table[1]["time_us"][0]


def test_the_report_names_the_command_and_has_its_links(platform: str) -> None:
    results = [
        api.collective_result("all_gather", 60_000, arm.Platform.load(platform), backend=name)
        for name in ("link", QUEUES)
    ]
    ours, theirs = (each.report for each in results)
    assert theirs["config"]["backend"] == QUEUES
    # Rows of the table are links that were used alike, and the example reports no waits.
    whole = [
        [(sum(row["count"] * row[key] for row in each["links"])) for key in ("busy_ns", "bytes")]
        for each in (ours, theirs)
    ]
    assert whole[0] == whole[1]
    assert [row["bytes"] for row in ours["dimensions"]] == [
        row["bytes"] for row in theirs["dimensions"]
    ]


def test_a_crash_is_an_error_that_quotes_the_last_message(
    platform: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(
        ["collective", "all_reduce", "-p", platform, "--backend", "external:sh -c 'exit 7'"]
    )
    assert code == 2
    said = capsys.readouterr().err
    assert "external:sh -c 'exit 7'" in said
    assert "the simulator ended with exit code 7; last message to it: HELLO of version 2" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("external:", "the command is missing"),
        ("external:sim 'a", "a quote in the command is not closed"),
        ("externally", "analytical, link, flow, packet, flit, external:COMMAND"),
    ],
)
def test_a_name_that_is_no_command_is_refused(
    platform: str, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    assert main(["collective", "all_reduce", "-p", platform, "--backend", name]) == 2
    assert said in capsys.readouterr().err


def test_no_file_starts_a_program(
    tmp_path: Path, platform: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "sweep.yml"
    spec.write_text(f"workload: gpt3-175b\nplatform: {platform}\nbackend: '{QUEUES}'\ngrid: {{}}\n")
    assert main(["sweep", str(spec), "-o", str(tmp_path / "out")]) == 2
    assert "unknown backend" in capsys.readouterr().err
    report = api.collective_result(
        "all_gather", 6000, arm.Platform.load(platform), backend=QUEUES
    ).report
    again = api.rerun(report)
    assert not callable(again)


def test_the_conformance_suite_runs_on_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "found.json"
    assert main(["check", "--backend", QUEUES, "--json", str(file)]) == 0
    assert "15 of 15 kinds of traffic broke no rule" in capsys.readouterr().out
    found = json.loads(file.read_text())
    assert found["schema"] == "armillary.conformance/1"
    assert len(found["findings"]) == 15


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 7", "the simulator ended with exit code 7; last message to it: HELLO of version 2"),
        ("kill -9 $$", "the simulator was ended by signal 9; last message to it: HELLO"),
        (
            "exec sleep 60",
            "has sent nothing for 0.2 s (network.external.timeout); last message to it",
        ),
        ("exec 1>&- 0>&-; exec sleep 60", "the simulator closed its output and still runs; last"),
        ("yes hello", 'malformed message: "hello'),
    ],
)
def test_the_conformance_suite_ends_where_there_is_no_conversation(
    capsys: pytest.CaptureFixture[str], script: str, said: str
) -> None:
    command = f"external:sh -c {shlex.quote(script)}"
    patience = ["--set", "network.external.timeout=0.2 s"]
    assert main(["check", "--backend", command, *patience]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("last message from it") == 1
    assert said in shown.err
    assert "Traceback" not in shown.err


def test_the_conformance_suite_finds_what_is_wrong(
    tmp_path: Path, platform: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A simulator whose links have no latency is too fast."""
    text = (ROOT / "adapters/python/queues.py").read_text()
    fast = tmp_path / "fast.py"
    fast.write_text(text.replace("return self.free + self.latency", "return self.free"))
    command = f"{PYTHON} {fast}"
    assert main(["check", "-p", platform, "--backend", command]) == 1
    said = capsys.readouterr().out
    assert "VIOLATION: Transfer" in said
    assert "minimum" in said


def test_a_list_of_networks_may_have_commands_with_commas() -> None:
    listed = "analytical, link,external:sim --a=1,2 --b,flow"
    assert backends.split(listed) == ["analytical", "link", "external:sim --a=1,2 --b", "flow"]


def test_one_workload_on_several_networks(
    tmp_path: Path, platform: str, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    assert main(["workload", "dlrm-hoti", "--dp", "6", "-o", str(work)]) == 0
    capsys.readouterr()
    file, page = tmp_path / "ladder.json", tmp_path / "ladder.html"
    names = f"analytical,link,{QUEUES}"
    arguments = ["compare", str(work), "-p", platform, "--backends", names]
    assert main([*arguments, "--json", str(file), "--report", str(page)]) == 0
    found = json.loads(file.read_text())
    assert found["schema"] == "armillary.ladder/1"
    first, second, third = found["networks"]
    assert [first["backend"], second["backend"]] == ["analytical", "link"]
    assert third["step_ns"] == second["step_ns"]
    assert first["difference"] == 0
    assert second["difference"] == second["step_ns"] / first["step_ns"] - 1
    moved = sum(row["delta_ns"] for row in second["where"])
    assert abs(moved) <= abs(second["step_ns"] - first["step_ns"]) + 1
    assert sum(second["causes"].values()) == pytest.approx(second["step_ns"] - first["step_ns"])
    assert "store and forward" in second["causes"]
    said = capsys.readouterr().out
    assert "Step times" in said
    assert "messages that are stored whole at each hop" in said
    assert main([*arguments, "--no-causes", "--json", str(file)]) == 0
    assert json.loads(file.read_text())["networks"][1]["causes"] == {}
    assert "Every model on the same workload" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.json", "b.json", "-p", "dgx-h100"], "has no effect on results"),
        (["a.json", "b.json", "--no-causes"], "has no effect on results"),
        (["a", "b", "--backends", "link,flow"], "2 workloads"),
        (["gpt3-175b", "--backends", "link"], "is missing"),
        (["gpt3-175b", "-p", "dgx-h100", "--backends", "link,link"], "each once"),
    ],
)
def test_a_list_of_networks_needs_one_workload_and_a_platform(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["compare", *arguments]) == 2
    assert said in capsys.readouterr().err
