"""Forms of several parts, and the bodies of uploads."""
