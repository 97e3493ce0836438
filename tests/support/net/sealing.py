"""Encryption as clients do it: a data key of the client's own, wrapped for each reader, and AES-GCM."""

import base64
import os
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

OAEP = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)


class Sealer:
    """An encrypting client with one RSA key pair, whose PEM files official clients read."""

    def __init__(self, folder: Path, name: str = "key") -> None:
        self.name = name
        self.private = rsa.generate_private_key(65537, 2048)
        self.public_file = folder / f"{name}.public.pem"
        self.private_file = folder / f"{name}.private.pem"
        self.public_file.write_bytes(
            self.private.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        self.private_file.write_bytes(
            self.private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        self._data_key = AESGCM.generate_key(256)

    def keys(self) -> dict[str, Any]:
        """Return the value of ``encryptionKeys`` before JSON and base64."""
        wrapped = self.private.public_key().encrypt(self._data_key, OAEP)
        about = {"keyValue": base64.b64encode(wrapped).decode(), "metadata": {"version": "1"}}
        return {self.name: about}

    def seal(self, content: bytes) -> tuple[bytes, bytes]:
        """Encrypt ``content``; return it and the parameter that opens it."""
        nonce = os.urandom(12)
        return AESGCM(self._data_key).encrypt(nonce, content, None), nonce

    def opened(self, sealed: bytes, nonce: bytes, wrapped: bytes) -> bytes:
        """Decrypt content with the private key."""
        return AESGCM(self.private.decrypt(wrapped, OAEP)).decrypt(nonce, sealed, None)
