"""Errors of predictions against measurements: collectives, training steps, memory.

`python -m armillary_lab.score FILE.json` reads sweeps of collectives, training steps, MLPerf
results and single kernels, predicts each on the preset of its machine, and prints errors by
operation, size, hardware and source. Rows that can't be predicted are counted with the reason.

Here: errors of the measurements that we ship (`collectives.errors`, `training_steps`), and scores
of the rows of a file (`__main__`, `published`). Not here: the predictions (`predict`), fits
(`fit`)."""
