"""The ports of an instance, and the offsets with which it can run beside an instance without one. Pure."""

from collections.abc import Collection

PORT_MAX = 65535
DEFAULTS = {
    "ZOOKEEPER": 2181,
    "BOOKIE": 3181,
    "BROKER": 6650,
    "BROKER_TLS": 6651,
    "HTTP": 8080,
    "HTTPS": 8443,
    "BROKER_HTTP": 8081,
    "BROKER_HTTP_TLS": 8082,
    "BOOKIE_HTTP": 8301,
    "GATEWAY_HTTP": 8401,
    "SPARK": 15002,
    "REDIS": 16379,
    "FUNCTIONS": 8501,
    "FUNCTIONS_TLS": 8521,
    "PROXY": 6640,
    "PROXY_TLS": 6641,
    "PROXY_HTTP": 8079,
}
BROKER_STEP = 10
"""Difference between the ports of two brokers."""

# Ports that browsers refuse to open: the "bad ports" of https://fetch.spec.whatwg.org above 1023.
BROWSERS_REFUSE = frozenset(
    {
        *(1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566),
        *(6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    }
)
_OUTGOING = 32768
"""First port that Linux assigns to outgoing connections, which may use it when the instance needs it."""


def default_ports(bookies: int, brokers: int, gateways: int = 1) -> dict[int, str]:
    """Return the ports of an instance without offset, with the names of their settings."""
    ports = {port: name for name, port in DEFAULTS.items()}
    for i in range(bookies):
        ports[DEFAULTS["BOOKIE"] + i] = "BOOKIE"
        ports[DEFAULTS["BOOKIE_HTTP"] + i] = "BOOKIE_HTTP"
    for i in range(brokers):
        for name in ("BROKER", "BROKER_TLS", "BROKER_HTTP", "BROKER_HTTP_TLS"):
            ports[DEFAULTS[name] + BROKER_STEP * i] = name
    for i in range(gateways if gateways > 1 else 0):
        ports[DEFAULTS["GATEWAY_HTTP"] + i] = "GATEWAY_HTTP"
    return ports


def refusal(
    offset: int, bookies: int, brokers: int, named: Collection[str] = (), gateways: int = 1
) -> str:
    """Return why an instance of this size cannot use ``offset``, and the nearest offset that it can; empty when it can.

    ``named`` are settings with a port of their own, which the offset does not move. Only collisions with an instance
    without offset are checked: two instances with valid offsets may still collide with each other.
    """
    unmoved = default_ports(bookies, brokers, gateways)
    problem = _problem(offset, unmoved, named)
    if not problem:
        return ""
    candidates = sorted(range(100, PORT_MAX, 100), key=lambda other: abs(other - offset))
    nearest = next(
        other
        for other in candidates
        if max(unmoved) + other < _OUTGOING and not _problem(other, unmoved, named)
    )
    return f"MAGNETAR_PORT_OFFSET {offset} puts the {problem}. The nearest round one that works is {nearest}"


def _problem(offset: int, unmoved: dict[int, str], named: Collection[str]) -> str:
    """Return which port an offset moves to where it cannot be; empty when there is none."""
    if offset == 0:
        return ""
    for port, name in unmoved.items():
        moved = port + offset
        if name in named:
            continue
        if moved > PORT_MAX:
            return f"{name} port above {PORT_MAX}"
        if moved in unmoved:
            return (
                f"{name} port on {moved}, the {unmoved[moved]} port of an instance without offset"
            )
        if name in ("HTTP", "HTTPS") and moved in BROWSERS_REFUSE:
            return f"{name} port on {moved}, which browsers refuse to open"
    return ""
