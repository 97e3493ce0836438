"""A provider's bucket is opened under its own address, with credentials by reference, or refused with the reason."""

from typing import Any

import pytest

from engine.offload.bucket import ALIYUN, AZURE, GOOGLE, S3, Bucket
from engine.offload.errors import ObjectStoreError, OffloadError, StoreTrouble
from engine.offload.stores import obstore_stores
from engine.offload.stores.obstore_stores import ConfiguredStores, ObstoreStore
from engine.offload.stores.providers import provider_store

HERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("bucket", "environment", "kind", "arguments"),
    [
        (Bucket(S3, "b"), {}, "S3Store", {"virtual_hosted_style_request": True}),
        (
            Bucket(S3, "b", "eu", HERE),
            {},
            "S3Store",
            {"region": "eu", "endpoint": HERE, "virtual_hosted_style_request": False},
        ),
        (Bucket(GOOGLE, "b"), {}, "GCSStore", {}),
        (Bucket(GOOGLE, "b", "eu", f"{HERE}/"), {}, "GCSStore", {"base_url": HERE}),
        (Bucket(AZURE, "c"), {}, "AzureStore", {}),
        (
            Bucket(AZURE, "c", "", f"{HERE}/account"),
            {"AZURE_STORAGE_ACCOUNT": "account"},
            "AzureStore",
            {"endpoint": f"{HERE}/account", "account_name": "account"},
        ),
        (
            Bucket(ALIYUN, "b", "eu", "https://oss-eu.aliyuncs.com"),
            {"ALIYUN_OSS_ACCESS_KEY_ID": "id", "ALIYUN_OSS_ACCESS_KEY_SECRET": "secret"},
            "S3Store",
            {
                "region": "eu",
                "endpoint": "https://b.oss-eu.aliyuncs.com",
                "virtual_hosted_style_request": True,
                "access_key_id": "id",
                "secret_access_key": "secret",
            },
        ),
    ],
)
def test_each_provider_has_the_options_of_its_own(
    bucket: Bucket, environment: dict[str, str], kind: str, arguments: dict[str, Any]
) -> None:
    assert provider_store(bucket, environment) == (kind, arguments)
    assert ConfiguredStores(None).open(bucket._replace(driver=S3)) is not None


@pytest.mark.parametrize(
    ("bucket", "reason"),
    [
        (Bucket("tape", "b"), "tape: no driver of that name"),
        (Bucket(ALIYUN, "b"), "aliyun-oss b: managed_ledger_offload_service_endpoint must be set"),
        (Bucket(S3, "b", "", "localhost:9"), "must begin with http:// or https://"),
        (Bucket(AZURE, "c"), "no credentials: set AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_a_bucket_that_cannot_be_opened_is_refused_with_what_is_missing(
    bucket: Bucket, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ACCOUNT", "ACCOUNT_NAME"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    with pytest.raises(OffloadError, match=reason):
        ConfiguredStores(None).open(bucket)


@pytest.mark.parametrize("driver", [S3, GOOGLE, AZURE])
async def test_a_store_that_does_not_answer_is_away_under_every_driver(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obstore_stores, "RETRIES", 0)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AZURE_STORAGE_ACCOUNT_NAME": "account",
        "AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0",
        "GOOGLE_SKIP_SIGNATURE": "true",
    }.items():
        monkeypatch.setenv(name, value)
    endpoint = "http://127.0.0.1:1" + ("/account" if driver == AZURE else "")
    store = ConfiguredStores(None).open(Bucket(driver, "cold", "us-east-1", endpoint))
    with pytest.raises(ObjectStoreError) as away:
        await store.get("k")
    assert away.value.trouble is StoreTrouble.AWAY


class NoRole:
    """A library whose requests fail as they do on a machine without credentials and without a role."""

    class exceptions:
        BaseError = RuntimeError

    async def get_async(self, _store: object, _key: str) -> object:
        raise RuntimeError(
            "Error performing token request: GET http://169.254.169.254/computeMetadata"
        )


async def test_an_error_names_the_credentials_that_a_process_lacks() -> None:
    with pytest.raises(ObjectStoreError, match="set GOOGLE_APPLICATION_CREDENTIALS") as refused:
        await ObstoreStore(NoRole(), None, GOOGLE).get("k")
    assert refused.value.trouble is StoreTrouble.FORBIDDEN
