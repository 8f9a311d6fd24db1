"""Asks live peers and compares their answers with the records: `make peers`.

    python lab/peers/run_peers.py              every peer
    python lab/peers/run_peers.py jax vllm     two of them
    python lab/peers/run_peers.py --record jax writes the record anew

A peer is three files. `requirements/peers/NAME.txt` has its packages, `lab/peers/record_NAME.py`
asks it, and `tests/golden/peers/NAME.json` has its answers with version and date, which `make test`
reads. Each peer has an environment of its own, `target/peers/NAME`. Its packages come before those
of `.venv`, which has Armillary and PyTorch.

A peer that can't be asked here is "not run", with the reason, and the exit code is 1, as for a
difference. Not here: the questions (`record_NAME.py`)."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements/peers"
RECORDS = ROOT / "tests/golden/peers"
ENVIRONMENTS = ROOT / "target/peers"
PROGRAMS = Path(__file__).parent
ADAPTER_TESTS = "cargo test --locked --quiet --profile ci --package net-external --test ns3"
TESTS = {"ns3": [*ADAPTER_TESTS.split(), "--", "--ignored"]}
"""A peer to tests that need it alive."""
PRECISION = 1e-5
"""Largest relative difference of two answers, the rounding of float32 on other processors."""
SHOWN = 5
"""Differences of a peer that are printed."""


class NotRunError(Exception):
    """Why a peer can't be asked on this machine."""


def peers() -> list[str]:
    """Names of all peers."""
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))


def last_line(run: subprocess.CompletedProcess[str]) -> str:
    """The end of what a failed command printed."""
    lines = (run.stderr.strip() or run.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit code {run.returncode}"


def environment(name: str) -> Path:
    """Python of the peer's environment, made or renewed if its requirements have changed.

    Raises:
        NotRunError: a package can't be installed.
    """
    wanted = (REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8")
    require_debian(wanted)
    folder = ENVIRONMENTS / name
    python, mark = folder / "bin/python", folder / "installed.txt"
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    make = [sys.executable, "-m", "venv", str(folder)]
    run = subprocess.run(make, capture_output=True, text=True, check=False)
    if run.returncode:
        raise NotRunError(last_line(run))
    here = sysconfig.get_path("purelib")
    scheme = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", vars=scheme))
    (packages / "armillary_venv.pth").write_text(
        f"import site; site.addsitedir({here!r})\n", encoding="utf-8"
    )
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    requirements = ["--requirement", str(REQUIREMENTS / f"{name}.txt")]
    run = subprocess.run(
        [str(python), *install, *requirements], capture_output=True, text=True, check=False
    )
    if run.returncode:
        shutil.rmtree(folder)
        raise NotRunError(last_line(run))
    mark.write_text(wanted, encoding="utf-8")
    return python


def require_debian(requirements: str) -> None:
    """Checks the lines `# debian: PACKAGE VERSION` of a requirement file.

    Raises:
        NotRunError: such a package is not installed, or has another version.
    """
    for line in requirements.splitlines():
        if not line.startswith("# debian: "):
            continue
        package, wanted = line.removeprefix("# debian: ").split()
        if shutil.which("dpkg-query") is None:
            raise NotRunError(f"{package} is a package of Debian")
        command = ["dpkg-query", "--show", "--showformat=${Version}", package]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode or not run.stdout:
            raise NotRunError(f"{package} is not installed (apt-get install {package})")
        if run.stdout.split("-")[0] != wanted:
            raise NotRunError(f"{package} is {run.stdout} here; the record is of {wanted}")


def asked(name: str) -> dict[str, object]:
    """The peer's version and answers.

    Raises:
        NotRunError: the peer can't be installed, or its program fails.
    """
    python = environment(name)
    helpers = (PROGRAMS, ROOT / "tests/python", ROOT / "tests/python/plan", ROOT / "train/tests")
    paths = [*map(str, helpers), str(ROOT / "examples/checkpoints")]
    settings = {
        "PYTHONPATH": os.pathsep.join(paths),
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
        "HF_HUB_OFFLINE": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.json"
        run = subprocess.run(
            [str(python), str(PROGRAMS / f"record_{name}.py"), str(path)],
            env={**os.environ, **settings},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise NotRunError(f"record_{name}.py: {last_line(run)}")
        found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
        return found


def differences(recorded: object, live: object, place: str = "") -> Iterator[str]:
    """Where two answers differ, and how."""
    if isinstance(recorded, Mapping) and isinstance(live, Mapping):
        for key in sorted(recorded.keys() | live.keys()):
            at = f"{place}.{key}".lstrip(".")
            if key not in recorded or key not in live:
                yield f"{at}: only {'now' if key in live else 'recorded'}"
            else:
                yield from differences(recorded[key], live[key], at)
    elif isinstance(recorded, list) and isinstance(live, list) and len(recorded) == len(live):
        for number, (one, other) in enumerate(zip(recorded, live, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif isinstance(recorded, float) and isinstance(live, float | int):
        if not math.isclose(recorded, live, rel_tol=PRECISION, abs_tol=1e-7):
            yield f"{place}: recorded {recorded!r}, now {live!r}"
    elif recorded != live:
        yield f"{place}: recorded {recorded!r}, now {live!r}"


def text_of(value: object, depth: int) -> str:
    """JSON with a line for each item down to `depth`, so that a change is a few lines."""
    if depth and isinstance(value, Mapping):
        items = [f"{json.dumps(key)}: {text_of(each, depth - 1)}" for key, each in value.items()]
        return "{\n" + ",\n".join(items) + "\n}"
    if depth and isinstance(value, list):
        return "[\n" + ",\n".join(text_of(each, depth - 1) for each in value) + "\n]"
    return json.dumps(value)


def save(name: str, live: Mapping[str, object]) -> None:
    """Writes the record anew."""
    head = {"tool": name, "version": live["version"], "date": str(date.today())}
    text = text_of({**head, "answers": live["answers"]}, 3)
    RECORDS.mkdir(exist_ok=True)
    (RECORDS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def compared(name: str, live: Mapping[str, object]) -> tuple[bool, list[str]]:
    """Whether the answers are the recorded ones, and lines that say so."""
    path = RECORDS / f"{name}.json"
    if not path.exists():
        return False, [f"{name}: has no record (make peers PEERS={name} RECORD=1)"]
    record = json.loads(path.read_text(encoding="utf-8"))
    wanted = {key: record[key] for key in ("version", "answers")}
    found = list(differences(wanted, live))
    title = f"{name} {live['version']}"
    if not found:
        return True, [f"{title}: as recorded on {record['date']}"]
    more = [f"  and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    first = f"{title}: differs from the record of {record['date']} in {len(found)} places"
    return False, [first, *(f"  {each}" for each in found[:SHOWN]), *more]


def tested(name: str) -> bool:
    """Whether the tests pass that need the peer alive."""
    command = TESTS.get(name)
    return command is None or subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main(arguments: Sequence[str]) -> int:
    """Asks the peers that are named, or all. 1 where one differs or is not run."""
    parser = argparse.ArgumentParser(description="Compares live peers with their records.")
    parser.add_argument("names", nargs="*", metavar="PEER", help=", ".join(peers()))
    parser.add_argument("--record", action="store_true", help="write the records anew")
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - set(peers()):
        parser.error(f"unknown: {', '.join(sorted(unknown))} (allowed: {', '.join(peers())})")
    if platform.system() != "Linux":
        print("peers: not run: their packages are for Linux")
        return 1
    bad = 0
    for name in given.names or peers():
        try:
            live = asked(name)
        except NotRunError as reason:
            print(f"{name}: not run: {reason}", flush=True)
            bad += 1
            continue
        if given.record:
            save(name, live)
        same, lines = compared(name, live)
        print("\n".join(lines), flush=True)
        bad += not (same and tested(name))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
