"""Problems that need an operator: subscriptions that do not drain and parts that do not answer, most harmful first."""
