"""Pictures of every page in light and dark, for docs/guides/pages.md: `python
lab/bench/python/screenshots.py [NAME...]`.

Makes each page with the command line in an empty directory, opens it in the machine's Chromium, and
writes `docs/images/NAME-light.png` and `NAME-dark.png` with a palette of 128 colours. Needs
requirements/extras.txt."""

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs/images"
WIDTH, HEIGHT = 1280, 1440
COLOURS = 128
SIZES = (1_048_576, 16_777_216, 268_435_456, 1_073_741_824)
RUN = "run llama -p dgx-h100-16n --npus 256"
PAGES: dict[str, list[str]] = {
    "run": [f"{RUN} --json a.json --report run.html"],
    "explain": [f"{RUN} --json a.json", "explain a.json --report explain.html"],
    "compare": [
        f"{RUN} --json a.json",
        f"{RUN} --json b.json --set links[1].bandwidth=25GB/s",
        "compare a.json b.json --report compare.html",
    ],
    "collective": [
        "collective all_reduce -p dgx-h100-16n -b 1M -e 4G -f 4 --report collective.html"
    ],
    "sweep": [f"sweep {ROOT}/examples/sweep.yml -o sweep", "report sweep -o sweep.html"],
    "design": [f"design {ROOT}/examples/design.yml --report design.html"],
    "calibrate": ["calibrate nccl.log -p dgx-h100 -o mine.yml --report calibrate.html"],
    "study": ["study multidim-equal-bandwidth --report study.html"],
}
"""Commands that make the page NAME.html, after `WORKLOAD` and the log of a measurement."""
WORKLOAD = "workload llama-3-70b --tp 8 --pp 4 --dp 8 --global-batch 128 --zero 1 --sp -o llama"


def armillary(folder: Path, line: str) -> None:
    """Runs the command line in `folder`."""
    subprocess.run(
        [sys.executable, "-m", "armillary.cli", *line.split()],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def log(folder: Path) -> None:
    """A measurement as nccl-tests prints it: 8 GPUs, latencies and bandwidths a little worse than
    the preset's."""
    lines = ["# nThread 1 nGpus 8", "# Collective test starting: all_reduce_perf"]
    lines += [
        f"#  Rank {i} Group 0 Pid 1 on host device {i} [0x0{i}] NVIDIA H100 80GB HBM3"
        for i in range(8)
    ]
    results = "time algbw busbw #wrong"
    lines.append(f"# size count type redop root {results} {results}")
    for size in SIZES:
        microseconds = 25 + size * 1.75 / 440e3
        algorithm = size / microseconds / 1e3
        cells = f"{microseconds:9.2f} {algorithm:7.2f} {algorithm * 1.75:7.2f} 0"
        lines.append(f"{size:12d} {size // 4:12d} float sum -1 {cells} {cells}")
    (folder / "nccl.log").write_text("\n".join(lines) + "\n", encoding="utf-8")


def picture(running: Browser, page: Path, target: Path, scheme: Literal["light", "dark"]) -> None:
    """The top of a page as a PNG."""
    context = running.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
    shown = context.new_page()
    shown.goto(page.as_uri())
    shown.wait_for_selector("body[data-ready]", state="attached")
    image = Image.open(io.BytesIO(shown.screenshot()))
    context.close()
    image.convert("RGB").quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE).save(
        target, optimize=True
    )


def main() -> None:
    """Every page, or those that are named."""
    names = sys.argv[1:] or list(PAGES)
    IMAGES.mkdir(exist_ok=True)
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as play:
        folder = Path(name)
        armillary(folder, WORKLOAD)
        log(folder)
        running = play.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        for page in names:
            for line in PAGES[page]:
                armillary(folder, line)
            for scheme in ("light", "dark"):
                picture(running, folder / f"{page}.html", IMAGES / f"{page}-{scheme}.png", scheme)
            sys.stdout.write(f"{page}\n")
        running.close()


if __name__ == "__main__":
    main()
