"""Numbers of a copy's messages, by which a target with deduplication knows them."""

from itertools import pairwise

from gateway.services.copying.plan import CopyPlan, SourcePart

PART = SourcePart("persistent://a/b/c", [[7, 0], [9, 3], [12, 5]], [7, 0], [12, 1], 7)
PLACES = [(7, 0, -1), (7, 2, 0), (7, 2, 1), (9, 0, -1), (9, 1, 0), (9, 1, 5), (12, 0, -1)]


def test_sequence_ids_rise_over_ledgers_and_within_batches() -> None:
    ids = [PART.sequence(*place) for place in PLACES]
    assert all(earlier < later for earlier, later in pairwise(ids))


def test_an_attempt_with_the_stored_plan_gives_the_same_sequence_ids() -> None:
    again = CopyPlan.of(CopyPlan([PART]).as_json()).sources[0]
    assert [again.sequence(*place) for place in PLACES[3:]] == [
        PART.sequence(*place) for place in PLACES[3:]
    ]
