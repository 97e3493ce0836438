"""Browsing of stored messages from any place of a topic, filtered, without a subscription or cursor."""
