"""Measured kernels: tables of one kernel in each row, as ai-dynamo/aiconfigurator publishes them.

Here: reading a table (`rows.py`), and the shape that a row states, in one file for each kind of
table. `data/` has the tables of the package: ai-dynamo/aiconfigurator, systems/data at 095f58a5,
Apache-2.0, a random sample. Not here: what we predict, its errors (`score.kernels`) and fits
(`fit.kernels`)."""
