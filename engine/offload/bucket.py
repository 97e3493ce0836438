"""Buckets: where the objects of tiered storage are. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

S3 = "aws-s3"
GOOGLE = "google-cloud-storage"
AZURE = "azureblob"
ALIYUN = "aliyun-oss"
FILES = "filesystem"
DRIVERS = (S3, GOOGLE, AZURE, ALIYUN, FILES)
_RECORDED = {
    S3: "AWS_S3",
    GOOGLE: "GOOGLE_CLOUD_STORAGE",
    AZURE: "AZURE_BLOB",
    ALIYUN: "ALIYUN_OSS",
}
"""Drivers by the names that Apache's brokers give them in the properties of a copy."""


class Bucket(NamedTuple):
    """A bucket of a ``driver`` (one of DRIVERS). ``name``: the bucket's, or the folder of FILES. ``region`` and
    ``endpoint`` (a URL) are empty where the driver's own are meant."""

    driver: str
    name: str = ""
    region: str = ""
    endpoint: str = ""

    @property
    def properties(self) -> dict[str, str]:
        """The bucket as Apache's brokers record it with each copy, beside the name of the driver."""
        if self.driver == FILES:
            # Apache's driver of this name writes files of Hadoop, from which these objects differ by the format.
            return {"storageBasePath": self.name, "format": "blocks"}
        return {
            "managedLedgerOffloadDriver": _RECORDED.get(self.driver, self.driver),
            "bucket": self.name,
            "region": self.region,
            "serviceEndpoint": self.endpoint,
        }

    def __str__(self) -> str:
        return f"{self.driver} {self.name}".rstrip()


NO_BUCKET = Bucket("")


def driver_of(name: str) -> str:
    """Return the driver that is named so in settings and policies, where S3 is a second name of one."""
    return S3 if name == "S3" else name


def recorded_bucket(driver: str, properties: Mapping[str, str]) -> Bucket:
    """Return the bucket that was recorded with a copy; its name is empty when none was."""
    driver = driver_of(driver)
    if driver == FILES:
        return Bucket(driver, properties.get("storageBasePath", ""))
    return Bucket(
        driver,
        properties.get("bucket", ""),
        properties.get("region", ""),
        properties.get("serviceEndpoint", ""),
    )
