"""Recorded numbers: an hour of each topic and subscription, a day of the cluster's totals."""
