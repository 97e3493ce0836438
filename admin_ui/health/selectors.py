"""Which parts of the instance answer, and as of when everything else that is shown is."""

from typing import Any

from gateway.services.collector import collector, now_ms

Body = dict[str, Any]


async def health() -> Body:
    """All hops. Nothing is waited for but what is asked for the first time, and that not longer than 0.4 s. On the
    engine link's loop."""
    keeper = collector()
    keeper.start()
    asker = keeper.health.asker
    asker.look()
    await asker.first()
    return {
        "now": now_ms(),
        "at": keeper.heard(),
        "hops": [hop.told() for hop in keeper.health.hops.all],
    }


async def beat() -> Body:
    """What every live socket is told once a second: the hops that do not answer. On the engine link's loop."""
    keeper = collector()
    keeper.start()
    keeper.health.asker.look()
    return {
        "op": "beat",
        "now": now_ms(),
        "at": keeper.heard(),
        "hops": [hop.told() for hop in keeper.health.hops.bad],
    }
