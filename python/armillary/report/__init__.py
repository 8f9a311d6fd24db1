"""Pictures of a report, one a file."""
