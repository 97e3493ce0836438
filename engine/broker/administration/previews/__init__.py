"""Previews of changes, and the checks that a change is made as its preview reported it."""
