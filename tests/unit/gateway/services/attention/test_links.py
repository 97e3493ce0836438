"""Links of the list of problems lead to the page of the very topic."""

import pytest

from gateway.services.attention.lag_items import topic_path


@pytest.mark.parametrize(
    ("topic", "page"),
    [
        ("persistent://public/orders/payments", "public/orders/payments"),
        ("persistent://public/standalone/orders/payments", "public/standalone%2Forders/payments"),
        ("persistent://public/default/a/b/c", "public/default%2Fa/b%2Fc"),
        ("persistent://public/default/100% #1?", "public/default/100%25%20%231%3F"),
    ],
)
def test_a_topic_is_linked_by_its_three_parts_each_as_one_segment(topic: str, page: str) -> None:
    assert topic_path("c", topic, "") == f"/c/c/t/{page}/subscriptions"
    assert topic_path("c", topic, "s") == f"/c/c/t/{page}/subscriptions#s"
