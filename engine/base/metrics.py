"""Constants of metrics pages. Nothing is imported here, because the broker writes its page itself."""

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of Prometheus' text format."""
