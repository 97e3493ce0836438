"""The checks of a worker before it starts its pool."""

import os

import pytest

from gateway import celery


def test_a_worker_without_semaphores_reports_it_and_is_not_restarted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(celery.logs, "keep_private", lambda: None)
    monkeypatch.setattr(celery.logs, "configure", lambda: None)
    celery.begin_worker()
    monkeypatch.setattr(celery, "SEMAPHORES", "/nowhere")
    with pytest.raises(SystemExit) as ended:
        celery.begin_worker()
    assert ended.value.code == os.EX_CONFIG
    assert "cannot start: /nowhere cannot be written" in caplog.text
