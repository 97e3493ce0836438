"""Parts that analyses share: cells that tasks return and Spark adds up, progress, and the parts of a result."""
