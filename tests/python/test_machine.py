"""How much memory there is."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from armillary import InputError, machine


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", 1),
        ("64 GiB", 64 * 2**30),
        ("1.5gb", 1_500_000_000),
        ("2k", 2000),
        ("unlimited", None),
        ("3MiB", 3 * 2**20),
    ],
)
def test_the_user_knows_best(
    monkeypatch: pytest.MonkeyPatch, text: str, amount: int | None
) -> None:
    monkeypatch.setenv(machine.VARIABLE, text)
    assert machine.available() == amount


@pytest.mark.parametrize("text", ["much", "-1", "1 XB", "nan", "1e9", "9" * 30])
def test_amounts_that_are_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(machine.VARIABLE, text)
    with pytest.raises(InputError, match="invalid amount of memory"):
        machine.available()


def test_a_limit_on_the_address_space_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(machine.VARIABLE, raising=False)
    code = "from armillary import machine; print(machine.available())"
    limit = 2 * 2**30

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, preexec_fn=bounded
    )
    assert 0 < int(run.stdout) < limit


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("0::/job/step", ("memory.max", "memory.current", "inactive_file")),
        (
            "4:cpu,memory:/job/step",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
    ],
)
def test_groups_above_count_too(tmp_path: Path, line: str, names: tuple[str, str, str]) -> None:
    limit, held, cache = names
    for folder, most in (("job", "1000"), ("job/step", "9000"), ("", "max")):
        inside = tmp_path / folder
        inside.mkdir(exist_ok=True)
        (inside / limit).write_text(most)
        (inside / held).write_text("600")
        (inside / "memory.stat").write_text(f"anon 1\n{cache} 50\n")
    path = line.split(":", 2)[2]
    assert list(machine._above(tmp_path, path, names)) == [9000 - 600 + 50, 1000 - 600 + 50]


KEEP = """
import resource
from armillary.machine import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def fill():
    before = faults()
    bytes(bytearray(b"x") * 50_000_000)
    return faults() - before

if keep_freed_memory():
    fill()
    print(fill())
else:
    print("not offered")
"""


def test_memory_that_was_freed_is_used_again_without_new_pages() -> None:
    done = subprocess.run([sys.executable, "-c", KEEP], capture_output=True, text=True, check=True)
    if done.stdout.strip() == "not offered":
        pytest.skip("the C library has no such switch")
    # New pages would be 24,000 faults, or 47 if all of them are huge.
    assert int(done.stdout) < 20
