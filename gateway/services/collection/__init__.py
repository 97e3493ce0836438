"""The figures of the console: followed brokers, the metadata store and topics at rest, collected into an index."""
