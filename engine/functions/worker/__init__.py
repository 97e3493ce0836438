"""A worker: one of the processes that run the instances of functions, sources and sinks.

``placing`` decides which worker runs an instance: all workers follow the functions and assignments in Pulsar's system
topics, the leader alone writes them. ``running`` starts, watches and ends the instances of this worker. ``answering``
are its operations for other processes. ``worker_service`` connects them.
"""
