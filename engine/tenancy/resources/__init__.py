"""Stored descriptions of a cluster's machines, and of the shares that namespaces have of them."""
