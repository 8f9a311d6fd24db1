"""Fits of presets to measurements, and the same fits without a source.

Here: libraries of collectives (`hierarchy.py`, `libraries.py`, `library_presets.py`), and the
efficiencies of kernels (`efficiency.py`, `vision.py`). Each has a search of its own: they differ in
steps, bounds and ends, and the presets hold their results. Not here: the fit of one machine to its
user's logs (`armillary.calibrate`)."""
