"""Which parts of the instance answer, and as of when everything else that is shown is."""

from typing import Any

from gateway.services.collector import collector, now_ms

BEAT_S = 1.0
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


async def beat(waiting: bool) -> Body:
    """What every live socket is told: the hops that do not answer; at once, or ``waiting`` until there is another, at
    most ``BEAT_S``. On the engine link's loop. Cancel-safe."""
    keeper = collector()
    keeper.start()
    keeper.health.asker.look()
    if waiting:
        await keeper.health.change(BEAT_S)
    return {
        "op": "beat",
        "now": now_ms(),
        "at": keeper.heard(),
        "hops": [hop.told() for hop in keeper.health.hops.bad],
    }
