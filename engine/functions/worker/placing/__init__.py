"""The places of instances: the workers, their leader, the functions, the assignments."""
