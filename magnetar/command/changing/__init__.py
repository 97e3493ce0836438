"""Commands that change many objects, or what others began."""
