"""Alerts: rules over what the collector knows, their firings, and the notifications about these."""
