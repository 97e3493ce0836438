"""The operations of Pulsar's Admin API on topics and what belongs to them, by resource."""
