"""Declarations of the administrative operations that a broker runs on what it owns: a module for each resource. Pure.

Answers are JSON values in the form of Pulsar's Admin REST API unless documented otherwise; 64-bit ids are JSON numbers.
The docstring of an operation describes its answer, and the Refusals that it raises with Pulsar's text. A call that was
cancelled or had no answer may or may not have happened.
"""
