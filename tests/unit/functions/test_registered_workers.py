"""Registrations of workers, which workers of other versions read."""

import json

import pytest

from engine.functions.registered_workers import WorkerRecord

RECORD = WorkerRecord("w", "127.0.0.1", 6750, "http://127.0.0.1:6750", 1)


def test_a_registration_is_read_without_what_another_version_has_or_lacks() -> None:
    stored = json.loads(RECORD.encode())
    del stored["rpc_url_tls"], stored["web_host"], stored["web_port"]
    assert WorkerRecord.decode(json.dumps(stored | {"later": 1}).encode(), "/w") == RECORD
    with pytest.raises(ValueError, match="/w: not the registration of a worker"):
        WorkerRecord.decode(b'{"id": "w"}', "/w")


def test_the_published_address_is_that_of_the_rest_interface_where_there_is_one() -> None:
    assert RECORD.label == "w:127.0.0.1:6750"
    shown = WorkerRecord("w", "127.0.0.1", 6750, "http://127.0.0.1:6750", 1, "", "gateway", 8080)
    assert shown.label == "w:gateway:8080"
    assert shown.info == {"workerId": "w", "workerHostname": "gateway", "port": 8080}
