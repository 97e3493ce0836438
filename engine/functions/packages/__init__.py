"""Code of functions, sources and sinks: stored as packages, and fetched to a file."""
