"""Policies of rates: publishing, dispatch and subscribing. Pure."""

from engine.tenancy.policies.forms import INT_MAX, LONG_MAX, Fields, Flag, Whole
from engine.tenancy.policies.policy import Policy
from engine.tenancy.policies.policy_calls import (
    Option,
    PolicyRoute,
    both_admin,
    ctl,
    switch,
    topic_ctl,
)


def _up_to(unit: str, high: int = INT_MAX) -> Whole:
    """Return the form of a rate, where values of 0 and below mean no limit."""
    return Whole(unit, -1, high, lenient=True)


_DISPATCH_RATE = Fields(
    {
        "dispatchThrottlingRateInMsg": _up_to("messages"),
        "dispatchThrottlingRateInByte": _up_to("bytes", LONG_MAX),
        "relativeToPublishRate": Flag(),
        "ratePeriodInSecond": _up_to("seconds"),
    },
    {
        "dispatchThrottlingRateInMsg": 0,
        "dispatchThrottlingRateInByte": 0,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 0,
    },
)


_RELATIVE = switch("relativeToPublishRate", on="--relative-to-publish-rate", off="")
_NOT_RELATIVE = Option(field="relativeToPublishRate", cases={"false": ()})
"""Option for a command that only knows rates which are not relative."""


def _dispatch_options(rate: str, period: str, relative: Option) -> tuple[Option, ...]:
    """Return the options of a dispatch rate; ``rate`` and ``period`` are the names of the flags."""
    return (
        Option(f"--{rate.format('msg')}", "dispatchThrottlingRateInMsg"),
        Option(f"--{rate.format('byte')}", "dispatchThrottlingRateInByte"),
        Option(f"--{period}", "ratePeriodInSecond"),
        relative,
    )


def _publish_options(rate: str) -> tuple[Option, ...]:
    """Return the options of a publish rate; ``rate`` is the pattern of the flags."""
    return (
        Option(f"--{rate.format('msg')}", "publishThrottlingRateInMsg"),
        Option(f"--{rate.format('byte')}", "publishThrottlingRateInByte"),
    )


def _subscribe_options(period: str) -> tuple[Option, ...]:
    """Return the options of a subscribe rate; ``period`` is the flag of its period."""
    return (
        Option("--subscribe-rate", "subscribeThrottlingRatePerConsumer"),
        Option(period, "ratePeriodInSecond"),
    )


def _dispatch_rate(
    name: str, title: str, target: str, key: str, setting: str, noun: str, **more: str
) -> Policy:
    """Return the policy of a dispatch rate; ``setting`` is the common prefix of the broker's settings, ``noun`` the
    tools' word."""
    relative = "dispatch_throttling_rate_relative_to_publish_rate"
    return Policy(
        name,
        title,
        f"Messages and bytes sent to {target} in a period; -1 and 0 are no limit",
        (key,),
        _DISPATCH_RATE,
        lambda settings: {
            "dispatchThrottlingRateInMsg": getattr(settings, f"{setting}_in_msg"),
            "dispatchThrottlingRateInByte": getattr(settings, f"{setting}_in_byte"),
            "relativeToPublishRate": getattr(settings, relative),
            "ratePeriodInSecond": 1,
        },
        (f"{setting}_in_msg", f"{setting}_in_byte", relative),
        topic_key=(name,),
        per_cluster=True,
        also=more.get("also", ""),
        per_subscription=more.get("per_subscription", ""),
        commands=(
            *both_admin(
                noun, *_dispatch_options("{}-dispatch-rate", "dispatch-rate-period", _RELATIVE)
            ),
            ctl(noun, *_dispatch_options("{}-rate", "period", _NOT_RELATIVE)),
            topic_ctl(
                noun, *_dispatch_options("{}-dispatch-rate", "dispatch-rate-period", _RELATIVE)
            ),
        ),
    )


RATES: tuple[Policy, ...] = (
    Policy(
        "publishRate",
        "Publish rate",
        "Messages and bytes per second that all producers of a topic may send together; -1 and 0 are no limit",
        ("publishMaxMessageRate",),
        Fields(
            {
                "publishThrottlingRateInMsg": _up_to("messages per second"),
                "publishThrottlingRateInByte": _up_to("bytes per second", LONG_MAX),
            },
            {"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": -1},
        ),
        lambda settings: {
            "publishThrottlingRateInMsg": settings.max_publish_rate_per_topic_in_messages,
            "publishThrottlingRateInByte": settings.max_publish_rate_per_topic_in_bytes,
        },
        ("max_publish_rate_per_topic_in_messages", "max_publish_rate_per_topic_in_bytes"),
        topic_key=("publishRate",),
        per_cluster=True,
        topic_route=PolicyRoute("publishRate", unset_status=204, applied=False),
        commands=(
            *both_admin("publish-rate", *_publish_options("{}-publish-rate")),
            ctl("publish-rate", *_publish_options("{}-rate")),
            topic_ctl("publish-rate", *_publish_options("{}-publish-rate")),
        ),
    ),
    _dispatch_rate(
        "dispatchRate",
        "Dispatch rate per topic",
        "a topic's subscriptions together",
        "topicDispatchRate",
        "dispatch_throttling_rate_per_topic",
        "dispatch-rate",
        also="clusterDispatchRate",
    ),
    _dispatch_rate(
        "subscriptionDispatchRate",
        "Dispatch rate per subscription",
        "each subscription",
        "subscriptionDispatchRate",
        "dispatch_throttling_rate_per_subscription",
        "subscription-dispatch-rate",
        per_subscription="dispatchRate",
    ),
    Policy(
        "subscribeRate",
        "Subscribe rate",
        "Number of times that a consumer may subscribe to a topic in a period; -1 and 0 are no limit",
        ("clusterSubscribeRate",),
        Fields(
            {
                "subscribeThrottlingRatePerConsumer": _up_to("times"),
                "ratePeriodInSecond": _up_to("seconds"),
            },
            {"subscribeThrottlingRatePerConsumer": -1, "ratePeriodInSecond": 30},
        ),
        lambda settings: {
            "subscribeThrottlingRatePerConsumer": settings.subscribe_throttling_rate_per_consumer,
            "ratePeriodInSecond": settings.subscribe_rate_period_per_consumer_in_second,
        },
        ("subscribe_throttling_rate_per_consumer", "subscribe_rate_period_per_consumer_in_second"),
        topic_key=("subscribeRate",),
        per_cluster=True,
        commands=(
            *both_admin("subscribe-rate", *_subscribe_options("--subscribe-rate-period")),
            ctl("subscribe-rate", *_subscribe_options("--period")),
        ),
    ),
    Policy(
        "replicatorDispatchRate",
        "Replication dispatch rate",
        "Messages and bytes sent to each other cluster in a period; -1 and 0 are no limit",
        ("replicatorDispatchRate",),
        _DISPATCH_RATE,
        lambda settings: {
            "dispatchThrottlingRateInMsg": settings.dispatch_throttling_rate_per_replicator_in_msg,
            "dispatchThrottlingRateInByte": settings.dispatch_throttling_rate_per_replicator_in_byte,
            "relativeToPublishRate": False,
            "ratePeriodInSecond": 1,
        },
        (
            "dispatch_throttling_rate_per_replicator_in_msg",
            "dispatch_throttling_rate_per_replicator_in_byte",
        ),
        topic_key=("replicatorDispatchRate",),
        per_cluster=True,
        shown=False,
    ),
)
