"""Which parts of the instance answer, found out by asking them in the background."""
