"""The lists of a role contain the namespaces whose topics it may list."""

import pytest

from engine.auth.authorization.evaluator import AccessRules
from engine.auth.authorization.policy_view import NotKnown
from engine.auth.authorization.viewer_of_roles import viewer_for
from engine.auth.identity import UNAUTHENTICATED, Identity
from engine.auth.viewer import ALL, Viewer
from tests.unit.auth.authorization.access_records import Records, policies

RULES = AccessRules(frozenset({"root"}), frozenset({"proxy"}))
TENANTS = {"t1": {"adminRoles": ["boss"]}, "t2": {"adminRoles": ["proxy"]}}
SPACES = {
    "t1/n": policies({"app": ["produce"], "job": ["functions"]}),
    "t1/m": policies(topics={"persistent://t1/m/t": {"app": ["consume"]}}),
    "t2/n": policies({"app": ["consume"], "boss": ["consume"], "proxy": []}),
}


@pytest.mark.parametrize(
    ("identity", "viewer"),
    [
        (Identity("root"), ALL),
        (Identity("boss"), Viewer(frozenset({"t2/n"}), frozenset({"t1"}))),
        (Identity("app"), Viewer(frozenset({"t1/n", "t2/n"}))),
        (Identity("job"), Viewer()),
        (Identity("stranger"), Viewer()),
        (UNAUTHENTICATED, Viewer()),
        (Identity("proxy"), Viewer()),
        (Identity("proxy", "app"), Viewer(frozenset({"t2/n"}))),
        (Identity("root", "app"), Viewer(frozenset({"t1/n", "t2/n"}))),
    ],
)
def test_a_viewer_has_the_namespaces_whose_topics_it_may_list(
    identity: Identity, viewer: Viewer
) -> None:
    assert viewer_for(identity, Records(TENANTS, SPACES), RULES) == viewer


def test_a_viewer_is_not_made_of_a_part_of_the_records() -> None:
    unloaded = Records(TENANTS, SPACES, ["t1/m"])
    with pytest.raises(NotKnown):
        viewer_for(Identity("app"), unloaded, RULES)
    assert viewer_for(Identity("root"), unloaded, RULES) is ALL
