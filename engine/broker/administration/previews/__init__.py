"""Changes that are told before they are made, and then made as they were told."""
