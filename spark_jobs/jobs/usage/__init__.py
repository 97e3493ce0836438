"""Usage: messages, bytes and storage by tenant, namespace, topic and day, and what they cost."""

from typing import Any

from spark_jobs.analysis import Analysis
from spark_jobs.jobs.kit.declared import ANYWHERE, LAST_ENTRIES, PLACES, parameters_of, whole


def _price(title: str, description: str) -> dict[str, Any]:
    return {
        "type": "number",
        "title": title,
        "description": description,
        "minimum": 0,
        "maximum": 1_000_000,
        "default": 0,
    }


USAGE = Analysis(
    name="usage",
    title="Usage and show-back",
    question="Who publishes and stores how much, on which day, and what does it cost?",
    targets=ANYWHERE,
    parameters=parameters_of(
        {
            **PLACES,
            "price_published": _price(
                "Price of a GB published", "In any currency, for 1,000,000,000 bytes; 0 for none"
            ),
            "price_stored": _price(
                "Price of a GB stored for a month", "For each copy on the bookies; 0 for none"
            ),
            "days": whole(
                "Days",
                "Published within so many days; 0 counts all that is stored",
                0,
                high=36500,
            ),
            "last_entries": LAST_ENTRIES,
        }
    ),
    job=f"{__name__}.job",
)
