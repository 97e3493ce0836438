"""Resources for the machines of a cluster and their allocation to namespaces."""
