"""The commands that make and check keys and tokens."""

import io
import json
from pathlib import Path

import pytest

from engine.auth.authenticators import jws
from engine.auth.authenticators.provider import Authenticated, Presented
from engine.auth.authenticators.token_provider import token_provider
from engine.auth.private_files import write_private
from engine.auth.settings import TokenSettings
from engine.metadata.apart.stores import StoreUrls
from engine.metadata.connect import Access
from engine.metadata.memory import MemoryServer, MemoryStore
from engine.programs.commands import token_commands
from engine.programs.commands.token_commands import main

NOW_MS = 1_700_000_000_000
ENDS = "2023-12-14T22:13:20+00:00"


class Wall:
    def wall_ms(self) -> int:
        return NOW_MS

    def monotonic_s(self) -> float:
        return 0.0


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments], Wall())


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.key"
    assert run("create-secret-key", "--output", path) == 0
    return path


def test_a_token_made_with_a_secret_key_is_accepted_by_a_broker(
    secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(secret.read_bytes()) == 32
    assert secret.stat().st_mode & 0o777 == 0o600
    assert run("create", "-sk", f"file://{secret}", "-s", "app", "-e", "30d") == 0
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    provider = token_provider(
        TokenSettings(token_secret_key=f"file://{secret}"), lambda: NOW_MS / 1000
    )
    accepted = provider.authenticate(Presented(line.encode()))
    assert accepted == Authenticated("app", NOW_MS / 1000 + 30 * 86_400)
    assert run("validate", line.strip(), "-sk", f"file://{secret}") == 0
    assert json.loads(capsys.readouterr().out)["sub"] == "app"


@pytest.mark.parametrize("algorithm", ["RS256", "PS512", "ES256", "ES512"])
def test_a_key_pair_signs_and_checks(
    algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = tmp_path / "private", tmp_path / "public"
    pair = ("--output-private-key", private, "--output-public-key", public)
    assert run("create-key-pair", "-a", algorithm, *pair) == 0
    assert [path.stat().st_mode & 0o777 for path in (private, public)] == [0o600, 0o644]
    made = run("create", "-pk", private, "-a", algorithm, "-s", "app", "-hs", "kid=one")
    token = capsys.readouterr().out.strip()
    assert made == 0
    assert run("show", token) == 0
    header, claims = capsys.readouterr().out.splitlines()
    assert json.loads(header) == {"kid": "one", "alg": algorithm}
    assert json.loads(claims).keys() == {"sub", "jti"}
    assert run("validate", token, "-pk", public) == 0
    assert run("create-key-pair", *pair) == 1  # existing keys are not replaced


def test_a_token_is_read_from_each_place(
    secret: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run("create", "-sk", secret, "-s", "app", "--no-token-id")
    token = capsys.readouterr().out
    path = tmp_path / "token"
    path.write_text(token)
    monkeypatch.setattr("sys.stdin", io.StringIO(token))
    for arguments in (["-f", path], ["-i"], [f"file://{path}"], [f"token:{token}"]):
        assert run("validate", *arguments, "-sk", secret) == 0
        assert json.loads(capsys.readouterr().out) == {"sub": "app"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["create", "-s", "app"], "Either --secret-key or --private-key"),
        (["validate", "a.b.c"], "Either --secret-key or --public-key"),
        (["show"], "Token needs to be passed"),
        (["show", "junk"], "not a token of three parts"),
        (["show", "-f", "/nowhere/token"], "/nowhere/token"),
        (["create", "-s", "app", "-sk", "SECRET", "-e", "soon"], "--expiry-time must be"),
        (["create", "-s", "app", "-sk", "SECRET", "-hs", "kid"], "KEY=VALUE"),
        (["create", "-s", "app", "-sk", "SECRET", "-a", "RS256"], "not by RS256"),
        (["validate", "a.b.c", "-sk", "AAAA"], "at least 256 bits"),
    ],
)
def test_impossible_commands_are_refused_in_one_line(
    arguments: list[str], reason: str, secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*(str(secret) if word == "SECRET" else word for word in arguments)) == 1
    captured = capsys.readouterr()
    assert reason in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_wrong_usage_has_a_status_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("make") == 2
    assert run("--help") == 0
    assert "create-secret-key" in capsys.readouterr().out


def test_an_expired_token_is_not_valid(secret: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("create", "-sk", secret, "-s", "app", "-e", "1s")
    token = capsys.readouterr().out.strip()
    later = Wall()
    later.wall_ms = lambda: NOW_MS + 1000  # type: ignore[method-assign]
    assert main(["validate", token, "-sk", str(secret)], later) == 1
    assert "expired" in capsys.readouterr().err


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_private(path, b"first")
    with pytest.raises(FileExistsError):
        write_private(path, b"second")
    assert path.read_bytes() == b"first"


class Stores:
    """The metadata server of the commands, each of which has a session of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = MemoryServer()
        self.urls: list[str] = []
        monkeypatch.setattr(token_commands, "connect_stores", self._connect)

    async def _connect(self, urls: StoreUrls, access: Access) -> MemoryStore:
        self.urls.append(urls.metadata)
        return self.server.session()


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Stores:
    return Stores(monkeypatch)


def test_a_token_is_revoked_by_itself_and_listed(
    secret: Path, stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    run("create", "-sk", secret, "-s", "app", "-e", "30d")
    token = capsys.readouterr().out.strip()
    token_id = jws.token_id(jws.parse(token))
    assert len(token_id) == 32
    assert run("revoke", token, "--metadata-url", "zk:there:2181") == 0
    assert capsys.readouterr().out == f"revoked {token_id} until it ends at {ENDS}\n"
    assert run("revoked") == 0
    listed = f"{token_id} revoked=2023-11-14T22:13:20+00:00 ends={ENDS}\n"
    assert capsys.readouterr().out == listed
    assert stores.urls == ["zk:there:2181", "zk:127.0.0.1:2181"]


def test_a_token_without_an_id_is_revoked_by_its_digest(
    secret: Path, stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    run("create", "-sk", secret, "-s", "app", "--no-token-id")
    token = capsys.readouterr().out.strip()
    assert run("revoke", token) == 0
    assert capsys.readouterr().out.startswith("revoked sha256:")


def test_a_token_that_is_not_at_hand_is_revoked_by_its_id(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("revoke", "--token-id", "7f-1", "--expires-at", "2023-12-14T22:13:20") == 0
    assert capsys.readouterr().out == f"revoked 7f-1 until it ends at {ENDS}\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--token-id", "a/b"], "token_id: must have"),
        (["--token-id", "a", "--expires-at", "soon"], "--expires-at must be"),
        (["--token-id", "a", "a.b.c"], "not both"),
        (["a.b.c", "--expires-at", "2027-01-01"], "--expires-at is for --token-id"),
        (["--token-id", "a", "--metadata-url", "redis:x"], "metadata_url must be"),
        ([], "Token needs to be passed"),
    ],
)
def test_a_revocation_that_cannot_be_made_is_refused_in_one_line(
    arguments: list[str], reason: str, stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("revoke", *arguments) == 1
    captured = capsys.readouterr()
    assert reason in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
