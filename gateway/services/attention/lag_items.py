"""Items of the overview and of a topic's page about subscriptions that lag. Pure."""

from typing import TypedDict
from urllib.parse import quote

from engine.base.names import split_topic
from gateway.services.attention.part_items import Item
from gateway.services.attention.ranking import Line, Problem
from gateway.services.attention.wording import (
    CAUSES,
    advice,
    detail,
    group_detail,
    group_title,
    named,
    waiting,
)

SEVERITIES = ("info", "warning", "error")


class LagItem(TypedDict):
    """Cause of a subscription's lag, in the form of the console's interface. ``title`` continues after its name."""

    cause: str
    severity: str
    title: str
    detail: str
    advice: str
    since: int
    at_least: bool


def topic_path(cluster: str, topic: str, subscription: str) -> str:
    """Return the path of the console's page about a listed topic's subscriptions, at one of them."""
    name = split_topic(topic)
    place = "/".join(quote(part, safe="") for part in (name.tenant, name.namespace, name.topic))
    page = f"/c/{cluster}/t/{place}"
    return f"{page}/subscriptions" + (f"#{quote(subscription, safe='')}" if subscription else "")


def lag_item(problem: Problem, now_ms: int, at_ease: bool) -> LagItem:
    """Return the cause of a subscription\'s lag. ``at_ease``: no disconnection of many clients is recent."""
    return {
        "cause": problem.cause,
        "severity": problem.severity,
        "title": CAUSES[problem.cause].title(problem),
        "detail": detail(problem, now_ms),
        "advice": advice(problem.cause, at_ease=at_ease),
        "since": problem.since_ms,
        "at_least": problem.at_least,
    }


def line_item(line: Line, cluster: str, now_ms: int, at_ease: bool) -> Item:
    """Return the item of the overview for a line of the ranking."""
    problem = line.problem
    name = problem.topic.removeprefix("persistent://")
    link = topic_path(cluster, problem.topic, problem.subscription)
    first = min(line.members, key=lambda member: (member.since_ms, not member.at_least))
    if line.total > 1:
        title, text = group_title(line.members), group_detail(line.members)
        link = f"/c/{cluster}/topics?attention={problem.cause}"
    elif problem.worst.evidence.get("at_rest"):
        title = f"{name} has a backlog and no consumer"
        text = f"{waiting(problem)} · not loaded by any broker"
    else:
        title = named(problem.subscription, CAUSES[problem.cause].title(problem))
        text = f"{name} · {detail(problem, now_ms)}"
    return {
        "key": line.key,
        "severity": max((member.severity for member in line.members), key=SEVERITIES.index),
        "cause": problem.cause,
        "title": title,
        "detail": text,
        "advice": advice(problem.cause, at_ease=at_ease),
        "link": link,
        "command": "",
        "topic": problem.topic,
        "subscription": problem.subscription,
        "count": line.total,
        "score": round(line.score, 3),
        "since": first.since_ms,
        "at_least": first.at_least,
    }
