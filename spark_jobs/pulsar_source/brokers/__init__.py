"""Reading through brokers, where Spark's machines do not reach the bookies."""
