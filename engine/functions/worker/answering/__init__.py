"""The answers of a worker to other processes: operations, reports in Pulsar's form, metrics."""
