"""Files of ASTRA-sim 1.0: from the two files to a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Armillary

from armillary._core import backends
from armillary.api import collective_us
from armillary.errors import InputError
from armillary.platform import from_astra_sim

TORUS = """num-npus: 16
num-packages: 16
package-rows: 1
topology: Torus3D
local-rings: 2
vertical-rings: 2
horizontal-rings: 2
flit-width: 1024
tile-link-width: 1600
package-link-width: 200
vcs-per-vnet: 50
routing-algorithm: Ring_XY
router-latency: 0
local-link-latency: 90
package-link-latency: 200
local-link-efficiency: 0.94
package-link-efficiency: 0.94
"""
SYSTEM = """scheduling-policy: LIFO
endpoint-delay: 10
packet-routing: software
injection-policy: normal
preferred-dataset-splits: 4
collective-implementation: hierarchicalRing
collective-optimization: localBWAware
"""
LAYERS = "DATA\n1\nfc -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 1048576 0\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A ring of 16 packages with the links of Table IV."""
    found = {}
    for name, text in (("network", TORUS), ("system", SYSTEM), ("layers", LAYERS)):
        found[name] = tmp_path / f"{name}.txt"
        found[name].write_text(text)
    return found


def test_a_ring_takes_the_time_of_its_equation(files: dict[str, Path]) -> None:
    """All-reduce of m on n NPUs: 2 (n - 1) rounds of m / 4 / n bytes. Of four chunks two run each
    way round, on two rings of 25 GB/s, 94 % of it data, and share them."""
    found = from_astra_sim(files["network"], files["system"])
    assert found.platform.npus == 16
    m, n, rate = 64 << 20, 16, 2 * 25e9 * 0.94
    took = collective_us("all_reduce", m, found.platform)
    sent = 2 * (n - 1) * m / n / 2 / rate * 1e6
    latency = 2 * (n - 1) * (0.2 + 0.01) * 2
    assert sent < took < sent + latency


def test_both_verbs_run_the_files_alike(files: dict[str, Path], armillary: Armillary) -> None:
    """`astra-sim` reads them, `run` what `platform import` makes of them."""
    network, system, layers = (str(files[name]) for name in ("network", "system", "layers"))
    platform = str(files["network"].with_name("platform.yml"))
    flags = [
        f"--workload-configuration={layers}",
        f"--system-configuration={system}",
        f"--network-configuration={network}",
        "--num-passes=3",
        "--json=-",
    ]
    theirs = armillary("astra-sim", *flags)
    assert theirs.returncode == 0, theirs.stderr
    assert "network.flit has no effect with the backend analytical" in theirs.stderr
    made = armillary("platform", "import", network, "--system", system, "-o", platform)
    assert made.returncode == 0, made.stderr
    assert "routing-algorithm has no effect" in made.stderr
    ours = armillary("run", layers, "-p", platform, "--passes", "3", "--json", "-")
    assert ours.returncode == 0, ours.stderr

    def step(text: str) -> str:
        return next(line for line in text.splitlines() if '"step_time_ns"' in line)

    assert step(theirs.stdout) == step(ours.stdout)


def test_faults_of_both_files_are_listed_together(files: dict[str, Path]) -> None:
    files["network"].write_text(TORUS.replace("package-rows", "package-row"))
    files["system"].write_text(SYSTEM.replace("software", "firmware"))
    with pytest.raises(InputError) as caught:
        from_astra_sim(files["network"], files["system"])
    shown = [str(problem) for problem in caught.value.problems]
    assert any("line 3" in each and "package-rows" in each for each in shown), shown
    assert any("line 3" in each and "software, hardware" in each for each in shown), shown


def test_options_of_other_formats_are_refused(files: dict[str, Path], armillary: Armillary) -> None:
    arguments = ["--system", str(files["system"]), "--nodes", "2", "--rails", "-o", "-"]
    refused = armillary("platform", "import", str(files["network"]), *arguments)
    assert refused.returncode == 2
    assert "--nodes" in refused.stderr
    assert "--rails" in refused.stderr
    alone = armillary("platform", "import", str(files["network"]), "-o", "-")
    assert alone.returncode == 2
    assert "--system" in alone.stderr


def test_flits_are_those_of_the_file(files: dict[str, Path], armillary: Armillary) -> None:
    """A packet of 4 flits that finds one virtual channel waits for its predecessor: the keys count.
    The same file through `platform import` takes as long."""
    network, system, layers = (str(files[name]) for name in ("network", "system", "layers"))
    base = TORUS.replace("flit-width: 1024", "flit-width: 2048\npackage-packet-size: 1024")

    def cycles(text: str) -> float:
        files["network"].write_text(text)
        ran = armillary(
            "astra-sim",
            "--backend=flit",
            f"--workload-configuration={layers}",
            f"--system-configuration={system}",
            f"--network-configuration={network}",
            "--json=-",
        )
        assert ran.returncode == 0, ran.stderr
        assert "network.flit" not in ran.stderr
        return float(json.loads(ran.stdout)["step_time_ns"])

    many = cycles(base)
    made = str(files["network"].with_name("platform.yml"))
    assert armillary("platform", "import", network, "--system", system, "-o", made).returncode == 0
    assert "virtual_channels: 50" in Path(made).read_text()
    ran = armillary("run", layers, "-p", made, "--backend", "flit", "--json", "-")
    assert json.loads(ran.stdout)["step_time_ns"] == many
    assert cycles(base.replace("vcs-per-vnet: 50", "vcs-per-vnet: 1")) > 2 * many


def test_help_names_every_backend(armillary: Armillary) -> None:
    said = armillary("astra-sim", "--help").stdout
    assert [name for name, _ in backends() if name not in said] == []
