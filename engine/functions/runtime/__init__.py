"""Starts, watches and asks instances of functions: each a process of its own, or a thread for trusted code."""
