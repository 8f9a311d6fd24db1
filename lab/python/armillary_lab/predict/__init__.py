"""Predictions of measured rows: each on the preset of its machine, with its own settings.

Not here: what was measured (`measured`), and how far off predictions are (`score`)."""
