"""The commands that make certificates for evaluation: a broker and a client connect by them."""

import asyncio
import ssl
from pathlib import Path

import pytest

from engine.auth.authenticators.certificate_provider import common_name
from engine.net.tls import ClientFiles, ServerFiles
from engine.programs.commands.certificates import main


def make(directory: Path, *arguments: str) -> int:
    return main([arguments[0], "-d", str(directory), *arguments[1:]])


async def test_server_and_client_trust_each_other_by_the_authority(tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    assert make(folder, "authority") == 0
    assert make(folder, "server", "broker", "--host", "localhost", "--host", "127.0.0.1") == 0
    assert make(folder, "client", "app") == 0
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert set(modes.values()) == {0o600}
    authority = str(folder / "authority.cert.pem")
    names = [
        (str(folder / f"{n}.cert.pem"), str(folder / f"{n}.key.pem")) for n in ("broker", "app")
    ]
    shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shown.set_result(common_name(writer.get_extra_info("peercert")))
        writer.close()

    files = ServerFiles(*names[0], client_ca=authority, client_cert_required=True)
    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=files.context())
    port = server.sockets[0].getsockname()[1]
    context: ssl.SSLContext = ClientFiles(authority, *names[1]).context()
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    assert await shown == "app"
    writer.close()
    server.close()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("client", "app"), "authority.cert.pem"),
        (("client", "../app"), "cannot be the name of a file"),
        (("client", "authority"), "cannot be the name of a file"),
    ],
)
def test_impossible_certificates_are_refused_in_one_line(
    arguments: tuple[str, ...], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(tmp_path, *arguments) == 1
    captured = capsys.readouterr()
    assert reason in captured.err
    assert captured.err.count("\n") == 1


def test_wrong_usage_has_a_status_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["authority", "--days", "0"]) == 2
    assert main(["server", "broker"]) == 2
    assert "--host" in capsys.readouterr().err
