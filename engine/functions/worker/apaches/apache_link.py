"""Port to Apache's workers that share a cluster with a worker."""

from typing import NamedTuple

from engine.functions.worker.apaches.apache_members import ApacheMembers
from engine.functions.worker.apaches.apache_worker_client import ApacheWorkerClient


class ApacheLink(NamedTuple):
    members: ApacheMembers
    client: ApacheWorkerClient
