"""Addresses and credentials of a cluster, and clients made of them."""
