"""Encryption keys of the WebSocket service, in the folder of the setting ``websocket_key_folder``."""

from pathlib import Path

from django.conf import settings

from engine.client.sealing import KeyFolder, KeyMissingError, Opener, Sealer
from gateway.ws.frames import HandshakeRefusedError

_NONE = "Can't add encryption key without configuring cryptoKeyReaderFactoryClassName"


def key_folder() -> KeyFolder | None:
    """Return the folder of keys; None when none is configured."""
    folder: str = settings.WEBSOCKET_KEY_FOLDER
    return KeyFolder(Path(folder)) if folder else None


def sealer(names: str) -> Sealer:
    """Return what encrypts by keys of these names, separated by commas. Raises HandshakeRefusedError."""
    keys = key_folder()
    if keys is None:
        text = f"{_NONE} (websocket_key_folder)"
        raise HandshakeRefusedError(500, f"Failed to create producer/consumer: {text}")
    try:
        return Sealer(keys, names.split(","))
    except KeyMissingError as error:
        raise HandshakeRefusedError(500, f"Failed to create producer/consumer: {error}") from error


def opener() -> Opener | None:
    """Return what decrypts messages whose keys are in the folder; None when no folder is configured."""
    keys = key_folder()
    return None if keys is None else Opener(keys)
