"""``magnetar console``: its options become the setting of the gateway."""

import os
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from magnetar.command.console import cluster_settings, command

NONE: dict[str, tuple[str, ...]] = {}


def test_an_option_is_for_all_clusters_or_for_one() -> None:
    options = {"token_file": ("/all", "eu=/eu"), "remote": ("eu=europe",)}
    assert cluster_settings(("us=http://a", "eu=http://b"), options) == (
        "us=http://a|token_file=/all eu=http://b|token_file=/eu|remote=europe"
    )


def test_files_are_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    made = cluster_settings(("us=http://a",), {"token_file": ("token",)})
    assert made == f"us=http://a|token_file={tmp_path}/token"


@pytest.mark.parametrize("clusters", [("us",), ("=http://a",), ("us=http://a", "us=http://b")])
def test_a_cluster_without_name_or_url_is_wrong_usage(clusters: tuple[str, ...]) -> None:
    with pytest.raises(click.BadParameter):
        cluster_settings(clusters, NONE)


def test_the_gateway_serves_these_clusters_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: dict[str, Any] = {}
    monkeypatch.setattr("gateway.serve.main", lambda arguments: started.update(given=arguments))
    for name in ("APACHE_CLUSTERS", "SERVES_OWN_CLUSTER", "DATA_DIR", "HTTP_PORT"):
        monkeypatch.setenv(f"MAGNETAR_{name}", "before")  # restored after the test
        if name == "HTTP_PORT":
            monkeypatch.delenv("MAGNETAR_HTTP_PORT")
    arguments = ["--cluster", "us=http://a", "--port", "9090", "--data-dir", str(tmp_path)]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output

    assert os.environ["MAGNETAR_APACHE_CLUSTERS"] == "us=http://a"
    assert os.environ["MAGNETAR_SERVES_OWN_CLUSTER"] == "false"
    assert started["given"] == ["--host", "127.0.0.1", "--port", "9090"]
