"""``clients``: what it asks for, what it prints, and that it asks before it disconnects."""

from typing import Any

import pytest

from tests.unit.command.test_administration import RecordingAdmin, rest, run

__all__ = ["rest"]
PATH = "/api/v1/clusters/one/connections"
ROW = {
    **{"broker": "b:1", "id": "3-5", "address": "10.0.0.9:4711", "library": "Pulsar-Java"},
    **{"version": "2.10.6", "application": "", "role": None, "since": 1_750_000_000_000},
    **{"producers": 2, "consumers": 1},
}


@pytest.fixture
def gateway(rest: RecordingAdmin) -> RecordingAdmin:
    rest.answers["/api/v1/environment"] = {"cluster": "one"}
    listed = f"{PATH}?version=2&sort=address&offset=0&limit=1000"
    rest.answers[listed] = {
        "rows": [ROW],
        "total": 1,
        "silent": [{"broker": "b:2", "reason": "no"}],
    }
    preview: dict[str, Any] = {"connection": ROW, "token": "t", "producers": 2, "consumers": 1}
    rest.answers[f"{PATH}/b%3A1/3-5/disconnect"] = preview | {"unacked": 7}
    return rest


def test_clients_of_a_version_are_listed_and_silent_brokers_named(gateway: RecordingAdmin) -> None:
    result = run("clients", "list", "--version", "2")
    assert "Pulsar-Java 2.10.6" in result.stdout
    assert "b:2 did not answer; its clients are not known: no" in result.stderr


def test_clients_are_counted_by_a_field(gateway: RecordingAdmin) -> None:
    group = {"library": "Pulsar-Java", "value": "2.10.6", "connections": 4}
    counted = {"groups": [group | {"producers": 1, "consumers": 0}], "silent": []}
    gateway.answers[f"{PATH}?group=version&limit=1"] = counted
    line = run("clients", "list", "--group", "version").stdout.splitlines()[1]
    assert line.split() == ["Pulsar-Java", "2.10.6", "4", "1", "0"]


def test_a_client_is_disconnected_by_the_token_of_its_preview(gateway: RecordingAdmin) -> None:
    refused = run("clients", "disconnect", "b:1", "3-5")
    assert refused.exit_code != 0
    assert [body for _, _, body in gateway.calls] == [{"preview": True}]
    done = run("clients", "disconnect", "b:1", "3-5", "--yes")
    assert done.exit_code == 0, done.output
    assert "2 producers, 1 consumers, 7 messages delivered again" in done.stdout
    assert gateway.calls[-1][2] == {"preview": False, "token": "t"}
