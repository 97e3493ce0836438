"""What brokers tell of themselves as a whole, and how they are told."""
