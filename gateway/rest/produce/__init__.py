"""Messages published over HTTP: the parsing of requests, and their answers."""
