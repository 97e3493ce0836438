"""Functions, sources and sinks of a cluster: deployed with their code, which is stored as packages."""
