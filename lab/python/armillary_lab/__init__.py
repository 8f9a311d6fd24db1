"""Armillary's laboratory: how far predictions are from what others measured and computed.

A measured row goes one way through the rooms: `measured` (what others measured), `predict` (what
the simulator says of it), `score` (how far off that is) and `fit` (parameters of presets), then
`pages` (documents). Beside them: `studies` (tables and figures of papers), `peers` (reference runs
of other simulators) and `cli` (the verb `study`). It stands on `armillary` and `armillary_train`;
nothing stands on it."""
