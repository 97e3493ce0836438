"""The ports of an instance, and which offsets let it run beside one that has none. Pure."""

from collections.abc import Collection

PORT_MAX = 65535
DEFAULTS = {
    "ZOOKEEPER": 2181,
    "BOOKIE": 3181,
    "BROKER": 6650,
    "HTTP": 8080,
    "BROKER_HTTP": 8081,
    "BOOKIE_HTTP": 8301,
    "GATEWAY_HTTP": 8401,
    "SPARK": 15002,
    "REDIS": 16379,
}
BROKER_STEP = 10
"""Between the ports of two brokers; the port after a broker's own stays free for TLS."""

# Ports that browsers refuse to open: "bad ports" of https://fetch.spec.whatwg.org, those above 1023.
BROWSERS_REFUSE = frozenset(
    {
        *(1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566),
        *(6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    }
)
_OUTGOING = 32768
"""From here on Linux gives ports to outgoing connections: one may be taken at the moment it is wanted."""


def default_ports(bookies: int, brokers: int, gateways: int = 1) -> dict[int, str]:
    """Every port of an instance without offset → the name of its setting."""
    found = {port: name for name, port in DEFAULTS.items()}
    for i in range(bookies):
        found[DEFAULTS["BOOKIE"] + i] = "BOOKIE"
        found[DEFAULTS["BOOKIE_HTTP"] + i] = "BOOKIE_HTTP"
    for i in range(brokers):
        found[DEFAULTS["BROKER"] + BROKER_STEP * i] = "BROKER"
        found[DEFAULTS["BROKER"] + BROKER_STEP * i + 1] = "BROKER"
        found[DEFAULTS["BROKER_HTTP"] + BROKER_STEP * i] = "BROKER_HTTP"
    for i in range(gateways if gateways > 1 else 0):
        found[DEFAULTS["GATEWAY_HTTP"] + i] = "GATEWAY_HTTP"
    return found


def refusal(
    offset: int, bookies: int, brokers: int, named: Collection[str] = (), gateways: int = 1
) -> str:
    """Why an instance of this size cannot use ``offset``, and the nearest offset that it can; empty when it can.

    ``named``: settings that have a port of their own, which no offset moves. Two offsets that are both good may still
    lie apart by a bad one.
    """
    plain = default_ports(bookies, brokers, gateways)
    why = _wrong(offset, plain, named)
    if not why:
        return ""
    round_ones = sorted(range(100, PORT_MAX, 100), key=lambda other: abs(other - offset))
    good = next(
        other
        for other in round_ones
        if max(plain) + other < _OUTGOING and not _wrong(other, plain, named)
    )
    return (
        f"MAGNETAR_PORT_OFFSET {offset} puts the {why}. The nearest round one that works is {good}"
    )


def _wrong(offset: int, plain: dict[int, str], named: Collection[str]) -> str:
    if offset == 0:
        return ""
    for port, name in plain.items():
        moved = port + offset
        if name in named:
            continue
        if moved > PORT_MAX:
            return f"{name} port above {PORT_MAX}"
        if moved in plain:
            return f"{name} port on {moved}, the {plain[moved]} port of an instance without offset"
        if name == "HTTP" and moved in BROWSERS_REFUSE:
            return f"{name} port on {moved}, which browsers refuse to open"
    return ""
