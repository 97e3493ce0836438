"""The keys that this service holds, where the setting ``websocket_key_folder`` says so."""

from pathlib import Path

from django.conf import settings

from engine.client.sealing import KeyFolder, KeyMissingError, Opener, Sealer
from gateway.ws.frames import RefusedError

_NONE = "Can't add encryption key without configuring cryptoKeyReaderFactoryClassName"


def key_folder() -> KeyFolder | None:
    """None where no keys are held."""
    folder: str = settings.WEBSOCKET_KEY_FOLDER
    return KeyFolder(Path(folder)) if folder else None


def sealer(names: str) -> Sealer:
    """By keys of these names, with commas between. Raises RefusedError."""
    keys = key_folder()
    if keys is None:
        text = f"{_NONE} (websocket_key_folder)"
        raise RefusedError(500, f"Failed to create producer/consumer: {text}")
    try:
        return Sealer(keys, names.split(","))
    except KeyMissingError as error:
        raise RefusedError(500, f"Failed to create producer/consumer: {error}") from error


def opener() -> Opener | None:
    """Decrypts what there are keys of."""
    keys = key_folder()
    return None if keys is None else Opener(keys)
