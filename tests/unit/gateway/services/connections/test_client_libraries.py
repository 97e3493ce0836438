"""Clients are distinguished by the version that they send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.services.connections.client_libraries import library_of, version_key


@pytest.mark.parametrize(
    ("sent", "library", "language", "version", "description"),
    [
        ("Pulsar-Java-v4.0.8", "Pulsar-Java", "Java", "4.0.8", ""),
        ("Pulsar-Java-v2.10.0-SNAPSHOT", "Pulsar-Java", "Java", "2.10.0-SNAPSHOT", ""),
        ("Pulsar-Java-v4.0.8-billing-v2", "Pulsar-Java", "Java", "4.0.8", "billing-v2"),
        ("Pulsar-CPP-v4.2.0", "Pulsar-CPP", "C++, Python or Node.js", "4.2.0", ""),
        ("Pulsar Go 0.1", "Pulsar-Go", "Go", "0.1", ""),
        ("Pulsar-Go-version-unknown", "Pulsar-Go", "Go", "unknown", ""),
        ("DotPulsar", "DotPulsar", "C#", "", ""),
        ("Magnetar-Proxy", "Magnetar-Proxy", "Magnetar", "", ""),
        ("2.0.1-incubating", "", "", "2.0.1-incubating", ""),
        ("mein Klient", "mein-Klient", "", "", ""),
        ("", "", "", "", ""),
    ],
)
def test_official_libraries_and_strangers_are_recognised(
    sent: str, library: str, language: str, version: str, description: str
) -> None:
    assert library_of(sent) == (library, language, version, description)


@given(st.text(max_size=256))
def test_no_text_of_a_client_fails(sent: str) -> None:
    assert library_of(sent).version in sent
    assert version_key(sent) <= version_key(sent)


def test_versions_are_ordered_by_their_numbers() -> None:
    versions = ["4.0.8", "2.9", "2.10.1", "3.0", "2.10"]
    assert sorted(versions, key=version_key) == ["2.9", "2.10", "2.10.1", "3.0", "4.0.8"]
