"""Protobuf's text and binary formats without schemas, for records in ZooKeeper nodes."""
