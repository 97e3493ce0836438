"""The gateway in this process, for the tests of this folder."""

from tests.support.admin.gateway_client import call, cluster, engine, gateway

__all__ = ["call", "cluster", "engine", "gateway"]
