"""The gateway in this process, for the tests of this folder."""

from tests.support.admin.bench import bench
from tests.support.admin.gateway_client import call, engine

__all__ = ["bench", "call", "engine"]
