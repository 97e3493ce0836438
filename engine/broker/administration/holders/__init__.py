"""Holders of the messages of subscriptions. Answers are bounded, and nothing is changed."""
