"""Lists that callers of Pulsar's REST interface are shown, and refusals as Apache words them."""
