"""The data sink ``pulsar``: rows of Spark as messages, published through the brokers."""
