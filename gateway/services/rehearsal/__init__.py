"""Trial of a candidate schema on the messages that a topic stores: they are read, nothing is changed."""
