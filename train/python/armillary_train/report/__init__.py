"""Results of the verbs as tables for the terminal."""
