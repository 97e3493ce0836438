"""The numbers of all topics, by name, in sum and in the orders that somebody looks at."""
