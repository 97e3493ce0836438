"""Forms as Pulsar's tools send them."""

import json
from typing import Any

FORM_TYPE = "multipart/form-data; boundary=XX"


def form(*parts: bytes) -> bytes:
    return b"".join(b"--XX\r\n" + part + b"\r\n" for part in parts) + b"--XX--\r\n"


def json_part(name: str, value: Any, content_type: str = "application/json") -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"\r\nContent-Type: {content_type}\r\n\r\n'
    return head.encode() + json.dumps(value).encode()


def text_part(name: str, value: str) -> bytes:
    return f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode()


def file_part(content: bytes, file_name: str = "ex.py", name: str = "data") -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"; filename="{file_name}"\r\n'
    return head.encode() + b"Content-Type: application/octet-stream\r\n\r\n" + content
