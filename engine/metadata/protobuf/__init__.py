"""Protobuf as ZooKeeper nodes hold it, without schemas: text and binary."""
