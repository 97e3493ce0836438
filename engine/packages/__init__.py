"""Packages: code of functions, sources and sinks, stored in ledgers under a name and a version.

``package_store`` is a broker's part. Others reach it by the operations of ``package_operations``.
"""
