"""Workers of Apache Pulsar that share the cluster: who they are, and calls of their REST interface."""
