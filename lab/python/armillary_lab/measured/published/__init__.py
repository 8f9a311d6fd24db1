"""Files of published measurements: from what a file says of a machine and a run to a preset and a
workload, by rules that hold for any row.

Not here: the measurements that presets are fitted to (`measured/*.csv`), and the scores of a file
(`python -m armillary_lab.score FILE.json`)."""
