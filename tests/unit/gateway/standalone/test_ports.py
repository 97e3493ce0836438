"""The port offsets that an instance accepts: it runs beside one without an offset, and browsers open its ports."""

import re
from pathlib import Path

import pytest

from gateway.standalone.ports import BROWSERS_REFUSE, PORT_MAX, default_ports, refusal

SIZES = [(1, 1), (3, 2), (16, 16)]
PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "instance.md"


@pytest.mark.parametrize(
    ("offset", "sizes", "words"),
    [
        (1000, SIZES, "ZOOKEEPER port on 3181, the BOOKIE port of an instance without offset"),
        (2000, SIZES, "HTTP port on 10080, which browsers refuse to open"),
        (1, SIZES, "port of an instance without offset"),
        (5900, SIZES, "port on 8081, the BROKER_HTTP port"),
        (6000, [(16, 16)], "ZOOKEEPER port on 8181, the BROKER_HTTP port"),
        (60000, SIZES, f"port above {PORT_MAX}"),
        (PORT_MAX, SIZES, f"port above {PORT_MAX}"),
    ],
)
def test_a_bad_offset_is_refused_with_the_reason_and_a_good_one(
    offset: int, sizes: list[tuple[int, int]], words: str
) -> None:
    for bookies, brokers in sizes:
        text = refusal(offset, bookies, brokers)
        assert text.startswith(f"MAGNETAR_PORT_OFFSET {offset} puts the ")
        assert words in text
        good = int(text.rpartition(" ")[2])
        assert refusal(good, bookies, brokers) == ""


@pytest.mark.parametrize(("bookies", "brokers"), SIZES)
def test_every_offset_is_refused_or_harmless(bookies: int, brokers: int) -> None:
    plain = default_ports(bookies, brokers)
    accepted = [o for o in range(1, PORT_MAX, 7) if not refusal(o, bookies, brokers)]
    assert len(accepted) > 5000
    for offset in accepted:
        moved = {port + offset for port in plain}
        assert not moved & plain.keys()
        assert max(moved) <= PORT_MAX
        assert 8080 + offset not in BROWSERS_REFUSE


def test_a_port_with_a_name_of_its_own_is_not_moved() -> None:
    assert refusal(2000, 1, 1, named=("HTTP",)) == ""
    assert refusal(1000, 1, 1, named=("ZOOKEEPER",)) == ""


def test_the_documented_offsets_work_in_every_size_and_beside_each_other() -> None:
    text = PAGE.read_text()
    named = [int(number) for number in re.findall(r"MAGNETAR_PORT_OFFSET=(\d+)", text)]
    assert named == [4000]
    steps = [4000, 8000, 12000, 16000]
    assert ", ".join(map(str, steps[1:])) in text
    for offset in {abs(a - b) for a in (0, *steps) for b in (0, *steps)}:
        assert refusal(offset, 16, 16) == ""
