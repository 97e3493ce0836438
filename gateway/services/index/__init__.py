"""The figures of all topics: by name, summed, and in the orders that lists request."""
