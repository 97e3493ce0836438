"""What is stored of the machines of a cluster and of the shares that namespaces have of them."""
