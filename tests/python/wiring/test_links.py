"""No link of a file is lost: those of AMD, of Grace and between switches, and what is not known."""

from __future__ import annotations

from pathlib import Path

import pytest
from imported_networks import imported, refused, speeds, written

from armillary import wiring
from armillary.api import collective_row
from armillary.errors import InputError
from armillary.platform import Platform

CPU = '<cpu numaid="{}" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="17">{}</cpu>'
MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \t{0}\t0-11\nGPU1\t{0}\t X \t0-11\n"


def amd_gpu(place: int, links: str, gcn: str = "gfx942") -> str:
    """A GPU as RCCL writes it; `sm` is its number of compute units."""
    return (
        f'<pci busid="0000:{place}1:00.0" class="0x120000" link_speed="32.0 GT/s PCIe" '
        f'link_width="16"><gpu dev="{place}" sm="304" gcn="{gcn}" rank="{place}" gdr="1">{links}'
        "</gpu></pci>"
    )


def xgmi(place: int, count: int = 1) -> str:
    return f'<xgmi target="0000:{place}1:00.0" count="{count}" tclass="0x120000"/>'


def mesh(gpus: int) -> str:
    """GPUs on two CPUs, with an xGMI link between each two."""
    each = [
        amd_gpu(i, "".join(xgmi(other) for other in range(gpus) if other != i)) for i in range(gpus)
    ]
    halves = ("".join(each[: gpus // 2]), "".join(each[gpus // 2 :]))
    cpus = "".join(CPU.format(place, half) for place, half in enumerate(halves))
    return f'<system version="2">{cpus}</system>'


def warnings(file: Path, gpu: str | None = None, **given: str) -> list[str]:
    assumed = wiring.Assumed(given, gpu)
    return list(wiring.import_file(file, name="x", assumed=assumed).warnings)


def busbw(platform: Platform) -> float:
    return collective_row("all_reduce", 2**30, platform).busbw


def test_a_node_of_mi300x_is_as_fast_as_its_preset(tmp_path: Path) -> None:
    """RCCL counts 48 GB/s of the 64 of a link; 7 links are 336 GB/s, measured are 302 to 326."""
    platform = imported(written(tmp_path, mesh(8)))
    links = speeds(platform, "xgmi")
    assert len(links) == 28
    assert set(links.values()) == {48.0}
    assert busbw(platform) == pytest.approx(busbw(Platform.load("mi300x-8")), rel=0.1)


@pytest.mark.parametrize(
    ("gcn", "speed"),
    [
        ("gfx906", 24),
        ("908", 24),
        ("910", 36),
        ("gfx90a:sramecc+", 36),
        ("942", 48),
        ("gfx950", 48),
    ],
)
def test_xgmi_by_generation(tmp_path: Path, gcn: str, speed: float) -> None:
    """RCCL's `src/graph/topo.h`; a pair of dies of an MI250X has four links."""
    gpus = amd_gpu(0, xgmi(1, 4), gcn) + amd_gpu(1, xgmi(0, 4), gcn)
    file = written(tmp_path, f"<system>{CPU.format(0, gpus)}</system>")
    assert speeds(imported(file), "xgmi") == {("gpu0", "gpu1"): 4.0 * speed}
    assert speeds(imported(file, {"xgmi": "50 GB/s"}), "xgmi") == {("gpu0", "gpu1"): 200.0}


def test_an_unknown_generation_is_refused(tmp_path: Path) -> None:
    gpus = amd_gpu(0, xgmi(1), "gfx1200") + amd_gpu(1, xgmi(0), "gfx1200")
    file = written(tmp_path, f"<system>{CPU.format(0, gpus)}</system>")
    [problem] = refused(file)
    assert "the speed of an xGMI link of gcn 'gfx1200' is not known" in problem
    assert speeds(imported(file, {"xgmi": "50 GB/s"}), "xgmi") == {("gpu0", "gpu1"): 50.0}


GRACE = """<system version="1"><cpu host_hash="0x1" numaid="0" arch="arm64">
<pci busid="0009:01:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16">
<nic><net name="mlx5_0" dev="0" speed="400000"/></nic></pci>
<pci busid="000f:01:00.0" class="0x030000" link_speed="2.5 GT/s PCIe" link_width="16">
<gpu dev="0" sm="121" rank="0" gdr="0"><c2c bw="43125" count="8"/></gpu></pci></cpu></system>"""


def test_nvlink_c2c(tmp_path: Path) -> None:
    """The GB10 of NVIDIA/nccl pull request 2202: NCCL prints C2C[345.0]. It takes the place of the
    PCIe link to the same CPU, which is 3.75 GB/s."""
    platform = imported(written(tmp_path, GRACE), nodes=2, cards=["mlx5_0"])
    found = {("n0.gpu0", "n0.cpu0"): 345.0, ("n1.gpu0", "n1.cpu0"): 345.0}
    assert speeds(platform, "c2c") == found
    assert not any("gpu" in end for ends in speeds(platform, "pcie") for end in ends)


SWITCHES = """<system version="1">
<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
<pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
<pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
<gpu dev="0" sm="89" rank="0" gdr="1"/></pci><pcilink target="0000:20:00.0"/></pci>
<pci busid="0000:20:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
<pci busid="0000:21:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
<gpu dev="1" sm="89" rank="1" gdr="1"/></pci><pcilink target="0000:10:00.0"/></pci>
<pci busid="0000:30:00.0" class="0x060400" link_speed="8.0 GT/s PCIe" link_width="16">
<pci busid="0000:31:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
<gpu dev="2" sm="89" rank="2" gdr="1"/></pci></pci></cpu></system>"""


def test_links_between_pcie_switches(tmp_path: Path) -> None:
    """NCCL's LOC_BW; and a switch of 8 GT/s above a single GPU of 16 GT/s limits it to 12 GB/s."""
    platform = imported(written(tmp_path, SWITCHES))
    ends = ("pcie-0000:10:00.0", "pcie-0000:20:00.0")
    assert speeds(platform, "pcilink") == {ends: 5000.0}
    assert speeds(platform, "pcie")["gpu2", "cpu0"] == 12.0
    assert not warnings(written(tmp_path, SWITCHES))
    lost = written(tmp_path, SWITCHES.replace('target="0000:20', 'target="0000:99'))
    wanted = "A pcilink leads to '0000:99:00.0', which is not a PCIe switch of this file."
    assert warnings(lost) == [wanted]


def test_what_is_not_known_is_named(tmp_path: Path) -> None:
    text = mesh(2)
    assert refused(written(tmp_path, text.replace("xgmi", "metaxlink"))) == [
        "line 1: <metaxlink>: unknown element in <gpu>",
        "line 1: <metaxlink>: unknown element in <gpu>",
    ]
    nested = text.replace("<xgmi ", '<xgmi maxcount="8" ')
    assert warnings(written(tmp_path, nested)) == [
        "The attribute maxcount of <xgmi> is unknown and was not read."
    ]
    gone = text.replace('target="0000:11', 'target="0000:77')
    [first, *_] = warnings(written(tmp_path, gone))
    assert "1 links of GPUs lead to devices that are not in the file" in first
    uneven = text.replace('count="1"', 'count="2"', 1)
    assert "list 2 and 1 links between them" in warnings(written(tmp_path, uneven))[0]
    two = text.replace("</gpu></pci>", '</gpu><gpu dev="9" rank="9"/></pci>', 1)
    assert "has 2 GPUs: parts of a GPU" in refused(written(tmp_path, two))[0]


@pytest.mark.parametrize(
    ("cpu", "speed"),
    [
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"', 10),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="173"', 40),
        ('arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49"', 16),
        ('arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17"', 24),
        ('arch="x86_64" vendor="AuthenticAMD" familyid="26" modelid="2"', 32),
        ('arch="ppc64"', 32),
        ('arch="x86_64" vendor="HygonGenuine" familyid="24" modelid="2"', None),
        ('arch="x86_64" vendor="AuthenticAMD" familyid="31" modelid="2"', None),
        ('arch="arm64"', None),
        ("", None),
    ],
)
def test_what_joins_cpus(tmp_path: Path, cpu: str, speed: float | None) -> None:
    """NCCL's `src/graph/topo.cc`, `ncclTopoAddCpu`; CPUs that it does not know are not guessed."""
    known = 'arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="17"'
    file = written(tmp_path, mesh(2).replace(known, cpu))
    if speed is None:
        [problem] = refused(file)
        assert "what joins two CPUs of" in problem
        assert speeds(imported(file, {"cpu": "20 GB/s"}), "cpu") == {("cpu0", "cpu1"): 20.0}
    else:
        assert speeds(imported(file), "cpu") == {("cpu0", "cpu1"): speed}


def test_hosts_of_one_file_stay_apart(tmp_path: Path) -> None:
    """A rack in one file, as NCCL fuses it: the same addresses on each host, one NVSwitch."""
    gpu = (
        '<pci busid="0000:11:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">'
        '<gpu dev="0" sm="100" rank="{0}" gdr="1">'
        '<nvlink target="ffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci>'
        '<pci busid="0000:12:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16">'
        '<nic><net name="mlx5_0" dev="{0}" speed="400000"/></nic></pci>'
    )
    intel = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"'
    cpus = "".join(
        f'<cpu host_hash="0x{i}" numaid="0" {intel}>{gpu.format(i)}</cpu>' for i in range(2)
    )
    platform = imported(written(tmp_path, f"<system>{cpus}</system>"))
    assert set(speeds(platform, "nvlink").values()) == {721.8}
    assert not speeds(platform, "cpu")


def test_a_matrix_without_nvlinks_is_refused(tmp_path: Path) -> None:
    """`topo -mp` leaves them out by design."""
    file = written(tmp_path, MATRIX.format("NODE"))
    with pytest.raises(InputError) as caught:
        imported(file, gpu="H800")
    [problem] = caught.value.problems
    assert "shows no NVLinks, and each H800 has 8" in problem.message
    assert "--assume nvlinks=0" in problem.help
    assert not speeds(imported(file, {"nvlinks": "0"}, "H800"), "nvlink")
    given = {"nvlinks": "8", "nvlink": "25 GB/s"}
    links = speeds(imported(file, given, "H800"), "nvlink")
    assert set(links.values()) == {200.0}


@pytest.mark.parametrize(
    ("gpu", "pcie"),
    [
        ("L40S", 24), ("L4", 24), ("T4", 12), ("RTX 4090", 24), ("RTX 5090", 48), ("A2", 12),
        ("NVIDIA GeForce RTX 4090", 24), ("NVIDIA H100 PCIe", 48), ("A100-PCIE-40GB", 24),
        ("NVIDIA RTX 6000 Ada Generation", 24), ("Tesla T4", 12), ("NVIDIA RTX A6000", 24),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 48),
    ],
)  # fmt: skip
def test_cards_without_nvlinks(tmp_path: Path, gpu: str, pcie: float) -> None:
    """PCIe 3, 4 and 5 with 16 lanes as NCCL counts them, 8 lanes of an A2."""
    platform = imported(written(tmp_path, MATRIX.format("PHB")), gpu=gpu)
    assert set(speeds(platform, "pcie").values()) == {pcie}


def test_an_h20_has_the_nvlinks_of_an_h100(tmp_path: Path) -> None:
    links = speeds(imported(written(tmp_path, MATRIX.format("NV18")), gpu="H20"), "nvlink")
    assert set(links.values()) == {370.8}


def test_a_gpu_that_is_not_in_the_list_is_described(tmp_path: Path) -> None:
    file = written(tmp_path, MATRIX.format("NV6"))
    with pytest.raises(InputError) as caught:
        wiring.Assumed({}, "X9000")
    assert "--assume nvlinks=0 --assume pcie='24 GB/s'" in caught.value.problems[0].help
    given = {"nvlinks": "6", "nvlink": "50 GB/s", "pcie": "96 GB/s"}
    platform = imported(file, given, "X9000")
    assert set(speeds(platform, "nvlink").values()) == {300.0}
    assert set(speeds(platform, "pcie").values()) == {96.0}


def test_grace_is_no_skylake(tmp_path: Path) -> None:
    """NVLink-C2C: 900 GB/s both ways, which two GPUs share. SYS leads over two CPUs."""
    rows = "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV18\tSYS\nGPU1\tNV18\t X \tSYS\nNIC0\tSYS\tSYS\t X \n"
    found = wiring.import_file(
        written(tmp_path, rows), name="x", assumed=wiring.Assumed({}, "GB200"), nodes=2
    )
    values = {name: value for name, value, _ in found.assumed}
    assert (values["cpu"], values["c2c"]) == ("450 GB/s", "225 GB/s")
    assert any("NVSwitches join the trays" in warning for warning in found.warnings)
    platform = Platform.parse(found.text)
    assert speeds(platform, "c2c")["n0.GPU0", "n0.cpu0"] == 225.0
    assert set(speeds(platform, "cpu").values()) == {450.0}


def test_a_gpu_off_nvlink_is_named(tmp_path: Path) -> None:
    """NVIDIA B200 of vllm issue 16336."""
    rows = (
        "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV18\tNODE\nGPU1\tNV18\t X \tNODE\nGPU2\tNODE\tNODE\t X \n"
    )
    assert warnings(written(tmp_path, rows), "B200") == ["GPU2 has no NVLink, and other GPUs have."]


def test_tables_of_rocm_smi_are_named(tmp_path: Path) -> None:
    text = "======= ROCm System Management Interface =======\n       GPU0  GPU1\nGPU0   0  XGMI\n"
    with pytest.raises(InputError) as caught:
        imported(written(tmp_path, text))
    [problem] = caught.value.problems
    assert problem.message == "is a table of rocm-smi that is not read"
    assert "NCCL_TOPO_DUMP_FILE" in problem.help
