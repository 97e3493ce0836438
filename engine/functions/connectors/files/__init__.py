"""Connectors of files and directories."""
