"""A training run: processes, steps, logs, profiles, its end."""
