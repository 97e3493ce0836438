"""Records bundled into objects and files: JSON lines, Parquet, plain lines."""
