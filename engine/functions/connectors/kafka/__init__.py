"""Apache Kafka: records as messages and messages as records."""
