"""The dense parts of a DLRM, and scores of its predictions."""
