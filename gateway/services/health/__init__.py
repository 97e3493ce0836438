"""Health of the instance's parts, determined by checks in the background."""
