"""Buckets of providers as the library obstore opens them: names of their options, addresses and credentials.

Credentials are references: variables of the process's environment, or the role of the machine.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.offload.bucket import ALIYUN, AZURE, GOOGLE, S3, Bucket
from engine.offload.errors import OffloadError

CREDENTIALS = {
    S3: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    GOOGLE: "GOOGLE_APPLICATION_CREDENTIALS",
    AZURE: "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    ALIYUN: "ALIYUN_OSS_ACCESS_KEY_ID and ALIYUN_OSS_ACCESS_KEY_SECRET",
}
"""Variables with the credentials of each driver, as errors name them."""
NO_CREDENTIALS = ("169.254.169.254", "token request", "Account must be specified")
"""Parts of errors of the library when the environment has no credentials: it asks the machine for its role then."""


class ProviderStore(NamedTuple):
    """Class of the library, and the arguments with which it opens a bucket."""

    kind: str
    arguments: dict[str, Any]


def provider_store(bucket: Bucket, environment: Mapping[str, str]) -> ProviderStore:
    """Return how the library opens ``bucket``. Raises OffloadError for a bucket that cannot be opened."""
    arguments: dict[str, Any] = {}
    if bucket.endpoint and not bucket.endpoint.startswith(("http://", "https://")):
        raise OffloadError(
            f"{bucket}: managed_ledger_offload_service_endpoint must begin with http:// or https://, "
            f"not be {bucket.endpoint}"
        )
    if bucket.driver in (S3, ALIYUN) and bucket.region:
        arguments["region"] = bucket.region
    if bucket.driver == S3:
        # A server under an own address has no names of buckets in its domain.
        arguments["virtual_hosted_style_request"] = not bucket.endpoint
        arguments |= {"endpoint": bucket.endpoint} if bucket.endpoint else {}
        return ProviderStore("S3Store", arguments)
    if bucket.driver == ALIYUN:
        return ProviderStore("S3Store", arguments | _aliyun(bucket, environment))
    if bucket.driver == GOOGLE:
        arguments |= {"base_url": bucket.endpoint.rstrip("/")} if bucket.endpoint else {}
        return ProviderStore("GCSStore", arguments)
    if bucket.driver == AZURE:
        arguments |= {"endpoint": bucket.endpoint.rstrip("/")} if bucket.endpoint else {}
        # The name of the variable for Apache's offloader, which the library does not know.
        if account := environment.get("AZURE_STORAGE_ACCOUNT"):
            arguments["account_name"] = account
        return ProviderStore("AzureStore", arguments)
    raise OffloadError(f"{bucket.driver}: no driver of that name")


def _aliyun(bucket: Bucket, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a bucket of Aliyun, which speaks the protocol of S3 under the bucket's own name."""
    scheme, _, host = bucket.endpoint.rstrip("/").partition("://")
    if not host:
        # The library would send the request to Amazon, where a bucket of that name may be another's.
        raise OffloadError(
            f"{bucket}: managed_ledger_offload_service_endpoint must be set, "
            "for instance to https://oss-eu-central-1.aliyuncs.com"
        )
    arguments: dict[str, Any] = {
        "endpoint": f"{scheme}://{bucket.name}.{host}",
        "virtual_hosted_style_request": True,
    }
    for option, variable in (
        ("access_key_id", "ALIYUN_OSS_ACCESS_KEY_ID"),
        ("secret_access_key", "ALIYUN_OSS_ACCESS_KEY_SECRET"),
    ):
        if variable in environment:
            arguments[option] = environment[variable]
    return arguments


def credentials_text(driver: str) -> str:
    """Return what to do when a process has no credentials for ``driver``."""
    named = CREDENTIALS.get(driver, "the provider's variables")
    return f"no credentials: set {named} for this process, or give the machine a role"
