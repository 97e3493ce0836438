"""Functions, sources and sinks: users' Python run beside their topics.

Layers: ``worker`` places instances on the members of a group, ``runtime`` starts each as a process (``instance`` is its
program) or on a thread, ``connectors`` are sources and sinks of our own, ``packages`` keeps uploaded code and
``definitions`` are the records and their rules.
"""
