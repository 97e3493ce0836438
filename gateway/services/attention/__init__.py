"""What needs attention: subscriptions that do not drain, and hops that do not answer, most harmful first."""
