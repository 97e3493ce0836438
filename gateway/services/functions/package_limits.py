"""The limits of packages in the gateway's settings."""

from mmap import mmap

from django.conf import settings

from gateway.services.functions.deploying import PackageLimits
from gateway.services.functions.package_urls import fetch


def limits() -> PackageLimits:
    """Return how large a package may be, and the function that fetches one."""
    environment = settings.ENVIRONMENT
    bytes_max: int = environment.package_bytes_max

    def fetched(url: str) -> bytes | mmap:
        return fetch(url, environment.package_urls, bytes_max)

    return PackageLimits(bytes_max, fetched)
