"""What callers of Pulsar's REST interface are shown, and how they are refused."""
