"""Sources and sinks: the interface that users' connectors and ours implement, and the catalogue of ours.

A connector runs in the process of an instance, whose event loop calls it. Its settings are described by a JSON Schema,
by which they are checked before it is deployed.
"""
