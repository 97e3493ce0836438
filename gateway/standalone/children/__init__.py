"""Children of an instance: their processes, the checks that they are ready, their log files."""
