"""Groups of dead letters, through the real engine."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pulsar
import pyarrow.parquet as pq
import pytest

from tests.support.analyses.runs import Answer
from tests.support.analyses.topics_with_answers import dead_letters, hostile


@pytest.mark.timeout(300)
def test_letters_are_grouped_by_reason_and_origin(
    run: Callable[..., Answer], client: pulsar.Client
) -> None:
    letters = dead_letters(client, "persistent://public/default/all-ship-DLQ")
    answer = run("dead-letters", topic=letters.topic)
    groups = answer.rows("groups")
    assert sorted(row["messages"] for row in groups) == sorted(letters.reasons.values())
    origins = Counter[tuple[str, str]]()
    for row in groups:
        origins[row["origin"], row["subscription"]] += row["messages"]
    assert origins == letters.origins
    reasons = {row["reason"]: row["shape"] for row in groups}
    assert reasons == {
        "TimeoutError: no answer within # ms": "JSON {id: number}",
        "ValueError: field price: '#' is no number": "broken JSON",
        None: "text",
    }
    assert answer.figure("letters") == sum(letters.reasons.values())
    positions = pq.read_table(answer.files / "positions.parquet")
    assert set(positions["group"].to_pylist()) == {1, 2, 3}
    # The letters of a group are found by its positions.
    first = answer.rows("shown_positions")[0]
    search = run("find", topic=letters.topic, id=f"{first['ledger']}:{first['first']}")
    assert any("no answer" in row["properties"] for row in search.rows("hits"))
    assert "public/default/all-ship-DLQ" in str(
        run("dead-letters", namespace="public/default").rows("groups")
    )


@pytest.mark.timeout(300)
def test_hostile_letters_are_counted(
    run: Callable[..., Answer], client: pulsar.Client, tmp_path: Path
) -> None:
    answer = hostile(client, "persistent://public/default/hostile-x-DLQ", tmp_path)
    assert run("dead-letters", topic=answer.topic).figure("letters") == answer.count
