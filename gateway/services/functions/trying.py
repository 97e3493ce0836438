"""Trials of functions: code on the last messages of its inputs, before it is deployed. Nothing is changed by one."""

import asyncio
from base64 import b64decode
from typing import Any

from engine.admin.api.messages import LATEST_BYTES_MAX, LATEST_ENTRIES, LatestEntries
from engine.base.errors import InvalidField, InvalidRequest
from engine.base.names import TopicName
from engine.functions.definitions.functions_pb2 import FunctionDetails
from engine.functions.ports import TrialCode
from engine.functions.runtime.plans import WINDOW
from gateway.services.browsing.parts import names_of
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine
from gateway.services.functions.deploying import PACKAGE_URLS, Deployment, planned

CODE_BYTES_MAX = 3 << 19
"""Bytes of code that comes with the request; more is uploaded as a package first."""
ENTRIES_BYTES_MAX = 1 << 20
"""Bytes of all stored entries of a trial."""


async def try_function(deployment: Deployment, messages: int) -> dict[str, Any]:
    """Run a function on the last ``messages`` of its inputs, and return what it did with each.

    The caller's own right to consume each input is judged by its broker. Raises InvalidRequest, Refusals.
    """
    if deployment.kind != "function":
        raise InvalidRequest(
            f"a {deployment.kind} cannot be tried: it has another system at one end"
        )
    details, code = await planned(deployment)
    if WINDOW in details.userConfig:
        raise InvalidField("windowConfig", "a function with windows cannot be tried yet")
    if len(code.content) > CODE_BYTES_MAX:
        raise InvalidField(
            "code", f"must have at most {CODE_BYTES_MAX} bytes for a trial; upload it as a package"
        )
    if not code.is_file and not code.url.startswith(PACKAGE_URLS):
        raise InvalidField("url", "must name a stored package for a trial, as function://…")
    entries, left_out = await _entries(deployment.engine, _topics(details), messages)
    given = TrialCode(
        code.file_name or f"{details.className.partition('.')[0]}.py",
        bytes(code.content),
        "" if code.is_file else code.url,
    )
    answer = await deployment.service.try_on(deployment.function, details, given, entries, messages)
    return {**answer, "at": now_ms(), "left_out": left_out}


def _topics(details: FunctionDetails) -> list[TopicName]:
    """Return the inputs. Raises InvalidField for a pattern."""
    topics = []
    for name, spec in details.source.inputSpecs.items():
        if spec.isRegexPattern:
            raise InvalidField(
                "topicsPattern", "names no topic: give inputs to try the function on"
            )
        topics.append(TopicName.parse(name))
    return topics


async def _entries(
    engine: Engine, topics: list[TopicName], messages: int
) -> tuple[list[dict[str, Any]], int]:
    """Return the last stored entries of topics, and the number of those that are left out for their size."""
    names = [part for topic in topics for part in (await names_of(engine, topic))[1]]
    share = min(max(ENTRIES_BYTES_MAX // max(len(names), 1), 1), LATEST_BYTES_MAX)
    answers = await asyncio.gather(
        *(engine.call(LATEST_ENTRIES, LatestEntries(name, messages, share)) for name in names)
    )
    rows: list[dict[str, Any]] = []
    left_out = 0
    for name, answer in zip(names, answers, strict=True):
        size = 0
        for ledger, entry, stored in answer["entries"]:
            size += len(b64decode(stored))
            if size > share:  # one entry comes whatever its size is
                left_out += 1
                continue
            rows.append({"topic": str(name), "ledger": ledger, "entry": entry, "stored": stored})
    return rows, left_out
