"""Failures that nobody foresaw: no details for the caller, all of them in the log, under one id."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.support.admin.gateway_client import request


@pytest.mark.usefixtures("call")
def test_a_failure_outside_the_rest_views_is_logged_with_its_trace(
    settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "index.html").mkdir()
    settings.FRONT_END_DIR = tmp_path
    log = logging.getLogger("gateway.rest.errors")
    log.addHandler(caplog.handler)  # the application's own set-up of logging replaces pytest's
    try:
        answer = request("GET", "/")
    finally:
        log.removeHandler(caplog.handler)
    assert answer.status == 500
    assert answer.json["reason"] == "An unexpected error occurred in the gateway"
    record = next(item for item in caplog.records if item.name == "gateway.rest.errors")
    assert answer.json["request_id"] in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is IsADirectoryError
