"""The list of all subscriptions, from what brokers report and what is stored of topics that none has loaded."""
