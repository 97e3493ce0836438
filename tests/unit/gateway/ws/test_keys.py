"""Keys that this service holds: found by name, or the handshake is refused."""

from pathlib import Path

import pytest
from django.test import override_settings

from gateway.ws import keys
from gateway.ws.frames import HandshakeRefusedError
from tests.support.net.sealing import Sealer


def test_without_a_folder_nothing_is_encrypted_or_decrypted() -> None:
    with pytest.raises(HandshakeRefusedError, match="websocket_key_folder") as caught:
        keys.sealer("a")
    assert caught.value.status == 500
    assert keys.opener() is None


def test_a_key_is_found_by_its_name(tmp_path: Path) -> None:
    Sealer(tmp_path, "a")
    with override_settings(WEBSOCKET_KEY_FOLDER=str(tmp_path)):
        fields, _ = keys.sealer("a").seal(b"")
        assert b"a" in fields
        assert keys.opener() is not None
        with pytest.raises(HandshakeRefusedError, match="Key b: no public key"):
            keys.sealer("a,b")
