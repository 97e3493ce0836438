"""Lines of the log say in the end what they are about."""

import logging

import pytest

from engine.base.log import bound


def test_a_bound_logger_appends_its_facts(caplog: pytest.LogCaptureFixture) -> None:
    log = bound("somebody", topic="t", ledger=7)
    with caplog.at_level(logging.INFO):
        log.info("rolled entries=%d", 3)
    assert caplog.messages == ["rolled entries=3 topic=t ledger=7"]
