"""The ranks of a run: who holds which part of a table, and what ranks send each other."""
