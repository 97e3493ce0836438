"""Clusters of Apache Pulsar, which are reached by its admin REST alone: the second source of the console's figures."""
