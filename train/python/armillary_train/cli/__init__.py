"""The verbs `train`, `ingest`, `checkpoint` and `bench`, one file for each."""
