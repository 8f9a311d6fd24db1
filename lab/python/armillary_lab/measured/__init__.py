"""Published measurements as typed rows, each with its source.

Here: the tables that predictions are compared with, and that presets are fitted to (`*.csv`), and
files of other measurements (`published`). Not here: what the simulator says of a row
(`predict`)."""
