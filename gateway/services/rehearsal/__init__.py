"""What a candidate for a topic's schema would do to the messages that are there: they are read, nothing is kept."""
