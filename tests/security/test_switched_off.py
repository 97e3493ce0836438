"""Functions, connectors, packages and uploads without workers: their doors are closed whatever is sent."""

import io
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import InvalidNameError
from engine.base.names import NamespaceName
from gateway.http.paths import decode_segment
from gateway.rest.functions import components, leader_calls, older_interface, packages
from tests.support.admin.gateway_client import Gateway

ROOT = Path(__file__).parents[2]
ADDRESSES = (
    "file:///etc/passwd",
    "http://127.0.0.1:8080/admin/v2/tenants",
    "http://169.254.169.254/latest/meta-data",
    "http://[::ffff:127.0.0.1]/",
    "http://2130706433/",
    "http://10.0.0.1/x.nar",
    "function://other/ns/x@1",
)
TEMPLATES = sorted(
    {
        template
        for module in (leader_calls, components, older_interface, packages)
        for template, _ in module.ROUTES
    }
)


def concrete(template: str) -> str:
    """Return a path of a template: packages have a kind, other variables a name."""
    return re.sub(r"\{[^}]+\}", "x", template.replace("{type}", "function"))


def archives() -> list[bytes]:
    """Return archives whose members lead out of their folder, link out of it, or grow beyond measure."""
    made = []
    for kind in (None, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            member = tarfile.TarInfo("../../../../tmp/escaped")
            member.type = kind or tarfile.REGTYPE
            member.linkname = "/etc/passwd"
            archive.addfile(member, io.BytesIO())
        made.append(file.getvalue())
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("/etc/escaped", b"x")
        packed.writestr("bomb", bytes(1 << 22))
    return [*made, file.getvalue()]


def form(body: bytes, **fields: str) -> bytes:
    """Return a form of several parts, as Pulsar's tools upload a package."""
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    file = b'--b\r\nContent-Disposition: form-data; name="data"; filename="../x"\r\n\r\n'
    return b"".join([*parts, file, body, b"\r\n--b--\r\n"])


def test_no_upload_and_no_address_is_taken(call: Gateway) -> None:
    before = call("GET", "/admin/v2/tenants").json
    forms = [form(body) for body in archives()]
    forms += [form(b"", url=url, functionConfig=f'{{"jar": "{url}"}}') for url in ADDRESSES]
    # All bodies at one path of each kind, one body at each other path.
    kinds = {template.split("/")[3]: template for template in TEMPLATES}
    assert {"functions", "sinks", "sources", "packages"} <= kinds.keys()
    tries = [(template, body) for template in kinds.values() for body in forms]
    tries += [(template, forms[0]) for template in TEMPLATES]
    for template, body in tries:
        path = concrete(template)
        answer = call("POST", path, body, content_type="multipart/form-data; boundary=b")
        assert answer.status in (400, 404, 405, 409, 412, 503), path
    assert call("GET", "/admin/v2/tenants").json == before
    assert not Path("/tmp/escaped").exists()


UNPACKING = re.compile(r"\b(tarfile|zipfile|shutil\.unpack_archive|gzip\.open|lzma|bz2)\b")
FETCHING = re.compile(r"\b(urlopen|urlretrieve|requests\.(get|post)|httpx|aiohttp)\b")
OWN = "gateway/standalone/demo.py"
OF_FUNCTIONS = "engine/functions/runtime/unpacking.py"
"""Unpacks code of functions, within bounds and into a folder of its own: tests/unit/functions/runtime."""
"""The only caller of a library for addresses: of the instance's own gateway."""


def test_no_other_program_unpacks_archives_or_fetches_addresses_of_clients() -> None:
    packages = ("engine", "bookie", "gateway", "admin_ui", "spark_jobs")
    files = [path for name in packages for path in (ROOT / name).rglob("*.py")]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in files}
    assert [name for name, text in texts.items() if UNPACKING.search(text)] == [OF_FUNCTIONS]
    assert [name for name, text in texts.items() if FETCHING.search(text)] == [OWN]


@pytest.mark.parametrize(
    "name", ["..", ".", "%2e%2e", "..%2Fother", "%2e%2e%2fother", "a%00", "%c0%ae%c0%ae"]
)
def test_the_name_of_a_package_leads_to_no_other_namespace(call: Gateway, name: str) -> None:
    path = f"/admin/v3/packages/function/public/default/{name}/1"
    for method in ("GET", "PUT", "DELETE"):
        answer = call(method, path)
        assert answer.status in (404, 405, 412, 503)


def test_names_of_segments_stay_one_name() -> None:
    for text in ("..", ".", "%2e%2e", "%00", "%c0%ae"):
        with pytest.raises(ValueError, match=r"segment|decode"):
            decode_segment(text)
    for name in ("a/..", "../a", "a/b/c/../d"):
        with pytest.raises((InvalidNameError, ValueError)):
            NamespaceName.parse(name)


OFFLOADING: dict[str, Any] = {
    "managedLedgerOffloadDriver": "aws-s3",
    "managedLedgerOffloadBucket": "b",
    "managedLedgerOffloadServiceEndpoint": "http://169.254.169.254/",
}


def test_an_offload_endpoint_is_never_connected_to(
    call: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.net.network import LoopNetwork

    monkeypatch.setattr(LoopNetwork, "connect", lambda *_, **__: pytest.fail("connected"))
    path = "/admin/v2/namespaces/public/default/offloadPolicies"
    assert call("POST", path, OFFLOADING).status in (204, 400, 405, 412, 501)
    cluster = {"serviceUrl": "http://169.254.169.254/", "brokerServiceUrl": "pulsar://10.0.0.1:1"}
    assert call("PUT", "/admin/v2/clusters/other", cluster).status == 200
    assert call("GET", "/admin/v2/clusters/other").json["serviceUrl"] == cluster["serviceUrl"]
