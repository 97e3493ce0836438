"""A gateway with functions for the tests of this folder."""

from tests.support.admin.gateway_client import call, cluster, gateway
from tests.support.functions.functions_gateway import engine, world

__all__ = ["call", "cluster", "engine", "gateway", "world"]
