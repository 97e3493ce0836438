"""Pages that load balancers and scrapers ask for."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

Call = Callable[..., Any]


def test_the_status_page_follows_its_file(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("GET", "/status.html").status == 404
    file = tmp_path / "in-service"
    environment = replace(settings.ENVIRONMENT, status_file_path=str(file))
    monkeypatch.setattr(settings, "ENVIRONMENT", environment)
    assert call("GET", "/status.html").status == 404
    file.touch()
    answer = call("GET", "/status.html")
    assert (answer.status, answer.body) == (200, b"OK")
    file.unlink()
    assert call("GET", "/status.html").status == 404


@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
def test_metrics_are_answered_with_and_without_a_slash(call: Call, path: str) -> None:
    answer = call("GET", path, headers={"accept": "text/plain"})
    assert answer.status == 200
    assert b"magnetar_gateway_requests" in answer.body
