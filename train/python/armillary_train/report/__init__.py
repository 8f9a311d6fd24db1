"""Results of the verbs as pages, which a terminal shows."""
