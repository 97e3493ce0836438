"""The operations of Pulsar's Admin API, by resource: existence checks with its texts, and calls to brokers."""
