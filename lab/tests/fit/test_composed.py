"""vTrain's times on one node are sums of measured parts, and no measured steps."""

from __future__ import annotations

from armillary_lab.measured.training import trainings
from armillary_lab.score.training_steps import COMPOSED


def test_times_are_linear_in_micro_batches() -> None:
    """Runs with n, 2n and 4n micro-batches, all else the same: t(4n) - t(2n) = 2 (t(2n) - t(n)). A
    measured step would have to repeat to 2 in 100,000."""
    times: dict[tuple[object, ...], float] = {}
    for run in trainings():
        if run.group == COMPOSED and run.iter_time_s:
            count = run.global_batch // run.dp // run.micro_batch
            times[run.model.name, run.tp, run.pp, run.dp, run.micro_batch, count] = run.iter_time_s
    bent = []
    for (*same, number), time in times.items():
        assert isinstance(number, int)
        two, four = times.get((*same, 2 * number)), times.get((*same, 4 * number))
        if two and four:
            bent.append(abs(four - two - 2 * (two - time)) / four)
    bent.sort()
    assert len(bent) == 303
    assert bent[-1] < 2e-5
    assert bent[len(bent) // 2] < 2e-6
