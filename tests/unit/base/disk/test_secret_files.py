"""Files with secrets that others may read or change are reported, and mended where they are an instance's own."""

import logging
import os
from pathlib import Path

import pytest

from engine.auth.authenticators.key_texts import secret_key
from engine.auth.internal import TOKEN_FILE, TokenError, load_token
from engine.base.disk.secret_files import read_secret, remedies
from engine.base.entropy import RandomEntropy
from engine.base.settings import SettingsError
from engine.client.settings import BrokerClientSettings
from engine.metadata.settings import MetadataSettings
from engine.net.tls import ClientFiles
from gateway import secret_key as sessions
from tests.support.net.certificates import Authority


def test_each_problem_is_named_with_its_remedy() -> None:
    assert remedies("/k", 0o100600, 7, 7) == []
    assert remedies("/k", 0o100400, 0, 7) == []
    (readable,) = remedies("/k", 0o100644, 7, 7)
    assert readable.endswith("(mode 0644): chmod 600 /k")
    (of_group,) = remedies("/k", 0o100440, 0, 7)
    assert of_group.endswith("(mode 0440): chmod 400 /k")
    assert remedies("/k", 0o100440, 0, 7, in_group=True) == []
    assert len(remedies("/k", 0o100460, 0, 7, in_group=True)) == 1
    assert len(remedies("/k", 0o100440, 7, 7, in_group=True)) == 1
    (foreign,) = remedies("/k", 0o100600, 8, 7)
    assert foreign.endswith("belongs to another user (8), who can read and change it: chown 7 /k")


@pytest.mark.parametrize("name", [TOKEN_FILE, sessions.FILE_NAME])
def test_own_files_of_the_data_folder_are_closed_and_the_secret_stays(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def read() -> str:
        if name == TOKEN_FILE:
            return load_token(tmp_path, "", RandomEntropy())
        return sessions.read_or_create(tmp_path)

    secret = read()
    (tmp_path / name).chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert read() == secret
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert read() == secret
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / name} was open to other users: it is for this user alone now"
    ]


def test_configured_files_are_left_as_they_are_and_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("client")
    secret, token = tmp_path / "secret.key", tmp_path / "broker.token"
    secret.write_bytes(os.urandom(32))
    token.write_text("token")
    for path in (key, secret, token):
        os.chmod(path, 0o640)
    settings = BrokerClientSettings(
        broker_client_authentication_plugin="token",
        broker_client_authentication_parameters=token.as_uri(),
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            ClientFiles(authority.cert, cert, key).context()
            secret_key(secret.as_uri(), "token_secret_key")
            settings.credentials()
    messages = [record.getMessage() for record in caplog.records]
    for path in (key, secret, token):
        (message,) = [text for text in messages if str(path) in text] or [""]
        assert message.endswith(f"(mode 0640): chmod 600 {path}"), path
        assert os.stat(path).st_mode & 0o777 == 0o640


def test_settings_of_secrets_may_name_a_file_of_the_secret(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o600)
    assert read_secret("plain", "x") == "plain"
    assert load_token(tmp_path, file.as_uri(), RandomEntropy()) == "0123456789abcdef"
    store = MetadataSettings(metadata_user="u", metadata_password=file.as_uri())
    assert store.access.password == "0123456789abcdef"


def test_a_file_of_a_secret_that_cannot_be_read_is_named_with_its_setting(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    text = f"cannot read {missing}: No such file or directory"
    with pytest.raises(SettingsError, match=f"metadata_password: {text}"):
        MetadataSettings(metadata_user="u", metadata_password=missing.as_uri())
    with pytest.raises(TokenError, match=f"MAGNETAR_INTERNAL_TOKEN: {text}"):
        load_token(tmp_path, missing.as_uri(), RandomEntropy())
