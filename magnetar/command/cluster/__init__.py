"""Commands that talk to a running cluster."""
