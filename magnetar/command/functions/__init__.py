"""Functions, sources, sinks and packages."""
