"""Routes about the machines of a cluster and the shares that namespaces have of them."""
