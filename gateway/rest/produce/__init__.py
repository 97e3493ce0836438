"""Messages published over HTTP: what bodies say, and how they are answered."""
