"""Support bundles: what they have, and that no planted secret is in them."""

import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.metadata.memory import MemoryServer
from magnetar.command.support import PROGRAMS
from magnetar.operate import support
from magnetar.operate.place import OperatedPlace
from magnetar.operate.redaction import HIDDEN, Redactor
from magnetar.operate.support import collect, tail, tree_of, write_bundle

CANARY = "zqxcanary"


class Canaries:
    """Secrets that are planted, each another one."""

    def __init__(self) -> None:
        self.planted: list[str] = []

    def __call__(self) -> str:
        self.planted.append(f"{CANARY}{len(self.planted):03d}x")
        return self.planted[-1]


def secret_environment(canary: Callable[[], str], folder: Path) -> dict[str, str]:
    """Return variables with a canary for each secret setting of each program, and for unknown ones."""
    environ = {
        setting.variable: canary()
        for program in PROGRAMS
        for setting in program.settings()
        if setting.is_secret
    }
    (folder / "key").write_text(f"{canary()}\n{canary()}\n")
    return {
        **environ,
        "MAGNETAR_TOKEN_SIGNING_KEY": f"file://{folder}/key",
        "MAGNETAR_PROVIDER_X_CLIENT_SECRET": canary(),
        "MAGNETAR_BROKER_PASWORD": canary(),
        "MAGNETAR_REDIS_URL": f"redis://user:{canary()}@h:1/0",
        "MAGNETAR_LOG_LEVEL": "DEBUG",
    }


LOGGED = (
    "INFO x y url=https://someone:{}@host/path",
    "INFO x y Authorization: Bearer {}",
    "INFO x y headers={{'Authorization': 'Bearer {}'}}",
    "WARNING x y authParams token:{}",
    'WARNING x y config={{"brokerClientAuthenticationParameters": "{}", "n": 1}}',
    "WARNING x y password={} user=u",
    "WARNING x y GET /x?token={}&a=b",
    "ERROR x y eyJhbGciOiJIUzI1NiJ9.{}.c2ln",
    "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
    "ERROR x y sessionid={}; csrftoken={}",
    "ERROR x y secret: '{}'",
    "INFO engine.rpc.server topics.set by=admin args=\"{{'properties': {{'p': '{}'}}, 'removed': []}}\"",
)


@pytest.fixture
def planted(tmp_path: Path) -> tuple[OperatedPlace, Canaries]:
    """A stopped instance whose every place has canaries."""
    canary = Canaries()
    data = tmp_path / "data"
    for folder in (data / "logs", data / "secure", data / "runs"):
        folder.mkdir(parents=True)
    environ = secret_environment(canary, tmp_path)
    own = [canary() for _ in range(4)]
    for name, text in zip(
        ("internal-token", "secret_key", "set-up-code", "secure/superuser.token"), own, strict=True
    ):
        (data / name).write_text(text)
    (data / "secure" / "ca.key").write_text(f"-----BEGIN KEY-----\n{canary()}\n")
    (data / "runs" / "result.json").write_text(canary())
    (data / "console.sqlite3").write_text(canary())
    lines = [text.format(canary(), canary()) for text in LOGGED]
    # Secrets that are known are hidden wherever they stand.
    lines += [f"DEBUG x y {text} z" for text in canary.planted if text in (*own, *environ.values())]
    (data / "logs" / "broker-1.log").write_text("\n".join(lines) + "\nINFO the last line\n")
    (tmp_path / "magnetar.toml").write_text(
        f'metadata_password = "{canary()}"\nunknown_thing = "{canary()}"\nsession_hours = 3\n'
        f'[provider_x]\nclient_secret = "{canary()}"\n[bookie]\nbookie_port = 3182\n'
    )
    place = OperatedPlace.load({}, data, data)
    return replace(place, environ=environ, directory=tmp_path), canary


@pytest.fixture(autouse=True)
def no_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the process of the doctor, which other tests run."""
    monkeypatch.setattr(support, "_add_doctor", lambda bundle, place: None)


@pytest.mark.parametrize("hash_names", [False, True])
def test_no_secret_is_in_a_bundle(
    planted: tuple[OperatedPlace, Canaries], hash_names: bool
) -> None:
    place, canary = planted
    bundle = collect(place, PROGRAMS, hash_names=hash_names)
    everything = "\n".join([*bundle.files, *bundle.files.values()])
    leaked = [text for text in canary.planted if text in everything]
    assert not leaked, [line for line in everything.splitlines() if CANARY in line]
    assert "the last line" in everything
    assert len(canary.planted) > 30


def test_settings_that_are_no_secrets_are_shown(planted: tuple[OperatedPlace, Canaries]) -> None:
    place, _ = planted
    text = collect(place, PROGRAMS).files["settings.json"]
    assert '"MAGNETAR_LOG_LEVEL": "DEBUG"' in text
    assert '"magnetar.toml: session_hours": "3"' in text
    assert '"magnetar.toml: [bookie] bookie_port": "3182"' in text
    assert f'"MAGNETAR_METADATA_PASSWORD": "{HIDDEN}"' in text


async def test_the_tree_has_sizes_and_no_values() -> None:
    store = MemoryServer().session()
    await store.create("/admin/policies/acme/bills", b"zqx" * 7, make_parents=True)
    await store.create("/managed-ledgers/acme/bills/persistent/a%2Fb", b"", make_parents=True)
    names: set[str] = set()
    lines = await tree_of(store, names)
    assert "/admin/policies/acme/bills 21 bytes, version 0" in lines
    assert names == {"acme", "bills", "a%2Fb", "a/b"}
    assert "zqx" not in "".join(lines)


def test_names_are_hidden_by_the_same_hash_everywhere() -> None:
    redactor = Redactor((), b"salt", frozenset({"acme", "orders"}))
    text = redactor.text(
        "topic=persistent://acme/bills/orders-partition-2 ledger acme/bills/persistent/orders closed;"
        ' x{topic="persistent://acme/bills/orders",subscription="late"} of orders'
    )
    for name in ("acme", "bills", "orders", "late"):
        assert name not in text
    hashed = redactor.name("orders")
    assert text.count(hashed) == 4
    assert f"{hashed}-partition-2" in text
    assert Redactor((), b"other").name("orders") != hashed
    assert redactor.text("persistent://public/default/orders").startswith(
        "persistent://public/default/n-"
    )


def test_ordinary_lines_are_left_as_they_are() -> None:
    lines = (
        "2026-11-27T00:00:00.000Z INFO engine.broker.service broker ready service=pulsar://127.0.0.1:6650",
        "2026-11-27T00:00:00.000Z WARNING engine.ledger.writing ledger failed ledger=12 error=b0: connect failed",
        "entries=12 bytes=4096 rate=3.5",
    )
    for line in lines:
        assert Redactor(("another secret",)).text(line) == line


def test_a_log_ends_with_its_last_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("first\nsecond\nthird\n")
    assert tail(path, 100) == "first\nsecond\nthird\n"
    assert tail(path, 10) == "third\n"


def test_a_bundle_is_whole_for_this_user_alone_and_replaces_nothing(
    planted: tuple[OperatedPlace, Canaries], tmp_path: Path
) -> None:
    place, _ = planted
    target = tmp_path / "bundle.zip"
    write_bundle(place, target, PROGRAMS)
    assert not stat.S_IMODE(target.stat().st_mode) & 0o077
    with zipfile.ZipFile(target) as archive:
        assert {"README.txt", "about.json", "settings.json", "logs/broker-1.log"} <= set(
            archive.namelist()
        )
    with pytest.raises(FileExistsError):
        write_bundle(place, target, PROGRAMS)


def test_a_part_that_cannot_be_collected_is_named_and_the_rest_is_there(
    planted: tuple[OperatedPlace, Canaries], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("broken token=abcdefgh")

    monkeypatch.setattr(support, "about", fail)
    bundle = collect(planted[0], PROGRAMS)
    assert bundle.files["not-collected.txt"] == f"about: broken token={HIDDEN}\n"
    assert "logs/broker-1.log" in bundle.files
