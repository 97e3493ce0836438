"""Frames and the answers that a live Apache bookie gave (``tests/oracle`` records them): ours are the same bytes."""

import json
from pathlib import Path

import pytest

from tests.oracle.test_bookie_frames import steady
from tests.support.bookies import Machine

ROWS = json.loads(Path(__file__).with_name("bookie_answers.json").read_text())


@pytest.mark.parametrize("read_from", ["memory", "disk"])
async def test_every_answer_is_the_recorded_one(read_from: str) -> None:
    async with Machine() as machine:
        for conversation in ROWS:
            client = await machine.client()
            for row in conversation:
                if read_from == "disk":
                    await machine.bookie.serving.checkpointer.step(checkpoint=True)
                answer = await client.ask(bytes.fromhex(row["request"]))
                outcome = steady(answer).hex() if answer else "closed"
                assert outcome == row["answer"], row["note"]
            await client.close()
