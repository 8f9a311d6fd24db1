"""Armillary's laboratory: how far predictions are from what others measured and computed.

A measured row goes one way through the rooms: `measured` (measurements of others), `predict`
(predictions of the simulator), `score` (errors of the predictions) and `fit` (parameters of
presets), then `pages` (documents). The other rooms are `studies` (tables and figures of papers),
`peers` (reference runs of other simulators) and `cli` (the verb `study`). It stands on `armillary`
and `armillary_train`; nothing stands on it."""
