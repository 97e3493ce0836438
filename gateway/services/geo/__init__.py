"""Links between this cluster and others, as its brokers report them."""
