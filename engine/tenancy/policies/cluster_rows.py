"""Policies of clusters and of offloading. Pure."""

from typing import Any

from engine.tenancy.geo.shadow_topics import SHADOWS, check_names
from engine.tenancy.policies.forms import LONG_MAX, Names, Whole
from engine.tenancy.policies.policy import Policy
from engine.tenancy.policies.policy_calls import (
    Option,
    PolicyRoute,
    PolicyTool,
    ctl,
    on_namespaces,
    on_topics,
    topic_admin,
)
from engine.tenancy.policies.values import OFFLOAD_UNSET, OffloadForm, check_replication


def _offload(name: str, title: str, meaning: str, field: str, **more: Any) -> Policy:
    """Return the policy of one number in a namespace's offload policies; any number is stored, as in Pulsar."""
    return Policy(
        name,
        title,
        meaning,
        ("offload_policies", field),
        Whole("", -1, LONG_MAX, lenient=True),
        lambda settings: more.get("unset"),
        within=OFFLOAD_UNSET,
        shown=False,
        **more,
    )


CLUSTERS: tuple[Policy, ...] = (
    Policy(
        "replication",
        "Clusters",
        "Clusters that hold a topic: it is sent to each of them",
        ("replication_clusters",),
        Names(),
        lambda settings: [],
        topic_key=("replicationClusters",),
        check=check_replication,
        unset=[],
        shown=False,
        route=PolicyRoute("replication", removal=None, stored_status=200),
        commands=(
            on_namespaces(PolicyTool.PULSAR_ADMIN, "set-clusters", Option("--clusters")),
            topic_admin("replication-clusters", Option("--clusters")),
            ctl("clusters", Option("--clusters")),
            on_topics(PolicyTool.PULSARCTL, "set-replication-clusters", Option("--clusters")),
        ),
    ),
    Policy(
        "allowedClusters",
        "Allowed clusters",
        "Clusters that may hold a topic of the namespace; an empty list stands for those of its tenant",
        ("allowed_clusters",),
        Names(),
        lambda settings: [],
        unset=[],
        nothing=([],),
        shown=False,
        route=PolicyRoute("allowedClusters", removal=None, stored_status=200),
    ),
    Policy(
        SHADOWS,
        "Shadow topics",
        "Shadow topics of a topic, which show its new messages at once",
        (),
        Names(),
        lambda settings: [],
        topic_key=(SHADOWS,),
        check=check_names,
        shown=False,
        topic_route=PolicyRoute(SHADOWS, method="PUT", everywhere=False),
    ),
    Policy(
        "offloadPolicies",
        "Offloading",
        "Storage to which closed ledgers of topics are moved",
        ("offload_policies",),
        OffloadForm(),
        lambda settings: None,
        topic_key=("offloadPolicies",),
        shown=False,
        # Its removal has a path of its own.
        route=PolicyRoute("offloadPolicies", removal=None),
    ),
    _offload(
        "offloadThreshold",
        "Offloading: size",
        "Bytes of a topic that remain on bookies when its ledgers are moved; below 0 is without limit",
        "managedLedgerOffloadThresholdInBytes",
        unset=-1,
        route=PolicyRoute("offloadThreshold", method="PUT", removal=None),
    ),
    _offload(
        "offloadThresholdInSeconds",
        "Offloading: age",
        "Age of a topic's ledgers at which they are moved from bookies; below 0 is without limit",
        "managedLedgerOffloadThresholdInSeconds",
        unset=-1,
        route=PolicyRoute(
            "offloadThresholdInSeconds", method="PUT", removal=None, stored_status=200
        ),
    ),
    _offload(
        "offloadDeletionLagMs",
        "Offloading: deletion",
        "Time for which a moved ledger remains on bookies",
        "managedLedgerOffloadDeletionLagInMillis",
        route=PolicyRoute("offloadDeletionLagMs", method="PUT"),
    ),
)
