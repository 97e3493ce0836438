"""Azurite, the emulator of Azure's blobs, where it is installed: ``npm install -g azurite``."""

import base64
import hashlib
import hmac
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from tests.support.ports import free_ports
from tests.support.waiting import until_blocking

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Account and key that each Azurite has, which its documentation names."""
VERSION = "2021-08-06"


@contextmanager
def running_azurite(container: str) -> Iterator[str]:
    """Run an emulator with an empty container; yield its address. Skip the test where there is none."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("no emulator of Azure: npm install -g azurite")
    (port,) = free_ports(1)
    options = ["--silent", "--inMemoryPersistence", "--skipApiVersionCheck"]
    options += ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    process = subprocess.Popen(
        [program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}/{ACCOUNT}"

    def created() -> bool:
        try:
            _create(url, container)
        except OSError:
            time.sleep(0.1)
            return False
        return True

    try:
        until_blocking(created, "the emulator answers", bound_s=60)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def _create(url: str, container: str) -> None:
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    resource = f"/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{VERSION}\n{resource}"
    key = base64.b64decode(KEY)
    signature = base64.b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).decode()
    headers = {
        "x-ms-date": date,
        "x-ms-version": VERSION,
        "authorization": f"SharedKey {ACCOUNT}:{signature}",
        "content-type": "",
    }
    request = urllib.request.Request(
        f"{url}/{container}?restype=container", b"", headers, method="PUT"
    )
    urllib.request.urlopen(request).close()
