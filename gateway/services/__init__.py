"""Verbs of the gateway without HTTP types: what REST, console, sockets and jobs ask of the engine."""
