"""Scores predictions against any file of published measurements.

`python -m armillary.validation.measurements FILE.json` reads sweeps of collectives, training steps,
MLPerf results and single kernels, predicts each on the preset of its machine, and prints errors by
operation, size, hardware and source. Rows that can't be predicted are counted with the reason.

Here: from what a file says of a machine and a run to a preset and a workload, by rules that hold
for any row. Not here: the measurements that presets are fitted to (`measured/`)."""
