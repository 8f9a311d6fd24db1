"""The native half: reading, checking, simulating. Times are picoseconds, reports JSON text (`armillary.report/1`)."""

from collections.abc import Callable, Sequence
from typing import final

Progress = Callable[[float, float], None]
"""Called now and then during a run with the finished share of the workload's operations (0..1) and the simulated ns."""

def version() -> str:
    """Version of Armillary, as in every report."""

@final
class Platform:
    """A platform, read and checked."""

    @staticmethod
    def load(path: str, settings: Sequence[tuple[str, str]] = ()) -> Platform:
        """Reads a native platform file; `settings` are `(dotted key, YAML value)` pairs that override the file's."""
    @staticmethod
    def parse(text: str, name: str, settings: Sequence[tuple[str, str]] = ()) -> Platform:
        """Reads a native platform from text; `name` stands for the file in errors."""
    @property
    def name(self) -> str: ...
    @property
    def npus(self) -> int: ...
    @property
    def warnings(self) -> list[str]: ...
    def describe(self) -> str:
        """The resolved platform as JSON."""

@final
class Workload:
    """A workload, read and checked by itself (not yet against a platform)."""

    @staticmethod
    def load(path: str, ranks: int | None = None) -> Workload:
        """Reads `prefix.%d.et` (or `prefix.{rank}.et`, or a directory of one such set); `ranks` limits how many."""
    @property
    def ranks(self) -> int: ...
    @property
    def operations(self) -> int: ...

@final
class Outcome:
    """What a run found."""

    def report(self) -> str:
        """The report as JSON text, the same bytes for the same input."""
    @property
    def step_ps(self) -> int:
        """End of the last rank, picoseconds."""
    @property
    def digest(self) -> str:
        """Digest of the event stream, 16 hexadecimal digits."""
    def finish_ps(self) -> list[int]:
        """End of every rank, picoseconds."""
    def compute_ps(self) -> list[int]:
        """Time every rank computed, picoseconds."""

def simulate(
    workload: Workload, platform: Platform, backend: str, fold: bool, seed: int, progress: Progress | None
) -> Outcome:
    """Runs; releases the GIL, minds signals. Raises `InputError` or `StalledError`."""

def collective(
    kind: str, bytes: int, platform: Platform, backend: str, fold: bool, root: int, progress: Progress | None
) -> Outcome:
    """Simulates one collective over all NPUs.

    `bytes` per NPU: the input buffer, or the contribution of one NPU for `all_gather` and `gather`.
    """

def check(workload: Workload, platform: Platform) -> list[tuple[str, str, str, str]]:
    """Everything that keeps the two from fitting together, as `(file, place, message, help)`, without simulating."""

def astra_sim(arguments: Sequence[str]) -> tuple[int, str | None, str | None]:
    """Does what ASTRA-sim's analytical front ends do, its lines on stdout, ours on stderr.

    Returns the exit code, the path given with `--json`, and the report for it.
    """
