"""The records of functions, sources and sinks, their JSON in Pulsar's REST interface, and the rules of both. Pure."""
