"""Reports of a broker as a whole, and the operations that return them."""
