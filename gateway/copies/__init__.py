"""Copies, moves and redrives of messages as tracked jobs, and their undoing."""
