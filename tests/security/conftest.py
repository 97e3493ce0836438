"""The gateway in this process, for the tests of this folder."""

from tests.support.admin.gateway_client import call, cluster, engine, gateway
from tests.unit.gateway.http.conftest import store

__all__ = ["call", "cluster", "engine", "gateway", "store"]
