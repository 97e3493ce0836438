"""Mistakes in access: a door that does not ask the judge, or asks about something else; a right without a grant."""

from tests.mutants.edit import Edit

WIRE = "unit/broker/connection/test_access.py"
ROUTING = "unit/net/test_routing.py"
HTTP = "unit/access/test_http_doors.py"
SOCKETS = "unit/access/test_socket_doors.py"
RPC = "unit/rpc/test_access.py"
SUMS = "unit/gateway/services/index/test_sums.py"
SUMS_OF_SEEN = f"{SUMS}::test_a_viewer_gets_the_sums_and_lists_of_what_it_sees_after_any_changes"
SEEN = "unit/access/test_what_viewers_see.py"
NOT_NAMED = f"{SEEN}::test_no_body_for_a_viewer_names_what_it_does_not_see"
JUDGED = "unit/auth/authorization/test_evaluator.py"
BY_ROLE = f"{JUDGED}::test_each_action_is_allowed_to_its_roles_alone"
MODEL = "unit/auth/authorization/test_evaluator_model.py"
NAIVE = f"{MODEL}::test_the_verdict_is_that_of_a_naive_reading"
AUTHORIZATION = "engine/auth/authorization"
JUDGE = "unit/tenancy/access/test_policy_judge.py"
REVOKED = "unit/broker/test_revocation.py"
LOSSES = "unit/broker/test_losses.py"

EDITS = (
    Edit(
        "publishing-sets-policies",
        f"{AUTHORIZATION}/evaluator.py::_is_closed",
        "return action is Action.PRODUCE or",
        "return",
        (f"{JUDGED}::test_a_grant_to_publish_is_none_to_set_policies",),
    ),
    Edit(
        "authorization-is-never-switched-on",
        "engine/tenancy/access/policy_judge.py::create_judge",
        "if not settings.authorization.authorization_enabled:",
        "if True:",
        ("unit/broker/test_authorized_broker.py::test_a_client_needs_a_grant",),
        "A18",
    ),
    Edit(
        "refusal-is-final-while-the-store-is-away",
        "engine/tenancy/access/policy_judge.py::PolicyJudge._certain",
        "if not all(map(self._records.is_certain, asked.names)):",
        "if False:",
        (f"{JUDGE}::test_allowed_actions_stay_allowed_while_the_store_is_unavailable",),
        "A18",
    ),
    Edit(
        "record-that-changed-while-it-was-read-is-current",
        "engine/tenancy/access/access_records.py::AccessRecords._read",
        "record.current = record.changes == changes",
        "record.current = True",
        (f"{JUDGE}::test_a_change_during_the_read_of_a_record_is_not_lost",),
        "A18",
    ),
    Edit(
        "revoked-consumer-stays",
        "engine/broker/revocation.py::_OpenConsumer.close",
        "self.subscription.disconnect_one(self.consumer)",
        "pass",
        (f"{REVOKED}::test_a_revoked_consumer_receives_nothing_more",),
        "A19",
    ),
    Edit(
        "tenants-change-concerns-no-namespace",
        "engine/broker/revocation.py::Revocation._namespaces",
        "loaded = self._loaded.namespaces_of(name.name)",
        "loaded = []",
        (f"{REVOKED}::test_a_former_administrator_is_disconnected_in_all_namespaces",),
        "A19",
    ),
    Edit(
        "right-is-not-confirmed-behind-the-command",
        "engine/broker/connection/confirmed_right.py::confirm",
        "if not verdict.allowed:",
        "if False:",
        (f"{REVOKED}::test_a_right_that_is_lost_while_a_command_waits_opens_nothing",),
        "A19",
    ),
    Edit(
        "changed-record-that-could-not-be-read-is-given-up",
        "engine/broker/revocation.py::Revocation._judge_again",
        """
        except MagnetarError as error:
            log.debug("record not read name=%s: %s", name, error)
            return False
        """,
        """
        except MagnetarError as error:
            log.debug("record not read name=%s: %s", name, error)
            return True
        """,
        (f"{REVOKED}::test_a_changed_record_that_cannot_be_read_is_read_again",),
        "A19",
    ),
    Edit(
        "command-is-not-judged",
        "engine/net/routing.py::Router.handle",
        "if (route.judged or self._undecided) and not self._passes(family, route, body):",
        "if self._undecided and not self._passes(family, route, body):",
        (f"{WIRE}::test_a_refused_command_is_answered_with_the_reason_and_changes_nothing",),
        "A1",
    ),
    Edit(
        "initial-subscription-is-not-judged",
        "engine/broker/connection/produce.py::initial_subscription",
        "if not body.initial_subscription_name:",
        "if True:",
        (f"{WIRE}::test_a_producer_that_may_not_consume_creates_no_subscription",),
        "A1",
    ),
    Edit(
        "command-overtakes-the-one-that-is-judged",
        "engine/net/routing.py::Router.handle",
        "if (route.judged or self._undecided) and not self._passes(family, route, body):",
        "if route.judged and not self._passes(family, route, body):",
        (f"{ROUTING}::test_commands_behind_one_that_is_being_judged_keep_their_order",),
        "A1",
    ),
    Edit(
        "refused-request-is-served",
        "gateway/http/auth/access.py::authorize_needs",
        "if not verdict.allowed:",
        "if False:",
        (
            f"{HTTP}::test_each_rest_path_refuses_before_it_calls_the_engine",
            f"{HTTP}::test_each_console_call_refuses_before_it_calls_the_engine",
        ),
        "A2",
    ),
    Edit(
        "channel-is-not-judged",
        "gateway/http/auth/open_access.py::OpenAccess.viewer",
        "await authorize(rights, call, self.identity, cluster)",
        "pass",
        (f"{SOCKETS}::test_a_channel_that_may_not_be_watched_makes_no_feed",),
        "A3",
    ),
    Edit(
        "websocket-endpoint-is-not-judged",
        "gateway/ws/admission.py::admit",
        "await admission.judge()",
        "pass",
        (f"{SOCKETS}::test_an_endpoint_refuses_the_handshake_before_it_calls_a_broker",),
        "A3",
    ),
    Edit(
        "operation-is-not-judged",
        "engine/rpc/server.py::RpcPages._rpc",
        "await self._authorize(operation, caller, args)",
        "pass",
        (f"{RPC}::test_a_refused_call_reaches_no_handler",),
        "A4",
    ),
    Edit(
        "proxy-acts-for-nobody",
        "engine/rpc/server.py::RpcPages._rpc",
        "original=principal or None",
        "original=None",
        (f"{RPC}::test_a_refused_call_reaches_no_handler",),
        "A4",
    ),
    Edit(
        "feed-key-without-viewer",
        "admin_ui/feeds.py::_key",
        "return viewer, channel.name",
        "return Viewer(), channel.name",
        ("unit/admin_ui/test_feeds.py::test_a_body_made_for_one_viewer_is_not_sent_to_another",),
        "A5",
    ),
    Edit(
        "sum-over-all-for-a-viewer-of-some",
        "gateway/services/index/sums.py::IndexSums._added",
        "if viewer.everything:",
        "if True:",
        (SUMS_OF_SEEN,),
        "A6",
    ),
    Edit(
        "list-of-a-viewer-begins-with-all",
        "gateway/services/index/selection.py::TopicSelection._passing",
        "if not self._viewer.everything:",
        "if False:",
        (SUMS_OF_SEEN,),
        "A6",
    ),
    Edit(
        "the-list-of-a-viewer-has-every-namespace",
        "gateway/services/index/seen_topics.py::NamespaceOrders.seen",
        "if viewer.sees(namespace):",
        "if True:",
        (SUMS_OF_SEEN,),
        "A6",
    ),
    Edit(
        "a-new-namespace-is-not-listed-for-viewers",
        "gateway/services/index/seen_topics.py::NamespaceOrders.show",
        "            self.version += 1\n",
        "",
        (SUMS_OF_SEEN,),
    ),
    Edit(
        "rest-lists-the-topics-of-every-namespace",
        "gateway/rest/access/seen.py::seen_topics",
        "return names if viewer.sees(str(namespace)) else ()",
        "return names",
        (NOT_NAMED,),
        "A6",
    ),
    Edit(
        "every-role-is-allowed",
        f"{AUTHORIZATION}/evaluator.py::judge",
        "if role not in rules.superusers:",
        "if False:",
        (BY_ROLE, NAIVE),
        "A12",
    ),
    Edit(
        "administrator-of-any-tenant",
        f"{AUTHORIZATION}/evaluator.py::_of_role",
        "record is not None and role in record.administrators",
        "record is not None and record.administrators",
        (BY_ROLE,),
        "A12",
    ),
    Edit(
        "produce-allows-consume",
        f"{AUTHORIZATION}/evaluator.py",
        'Action.CONSUME: ("consume",),',
        'Action.CONSUME: ("produce", "consume"),',
        (BY_ROLE,),
        "A12",
    ),
    Edit(
        "topic-is-granted-by-its-beginning",
        f"{AUTHORIZATION}/evaluator.py::_is_granted",
        "access.topics.get(topic.full, {})",
        "next((g for name, g in access.topics.items() if topic.full.startswith(name)), {})",
        (
            f"{JUDGED}::test_a_grant_on_one_topic_is_none_on_another_of_the_same_beginning_or_domain",
        ),
        "A12",
    ),
    Edit(
        "client-of-a-proxy-is-not-judged",
        f"{AUTHORIZATION}/evaluator.py::roles_of",
        "(own,) if identity.original is None else (own, identity.original)",
        "(own,)",
        (
            f"{JUDGED}::test_a_proxy_and_its_client_both_need_the_right",
            f"{JUDGED}::test_a_proxy_that_is_a_superuser_gives_its_client_nothing",
        ),
        "A13",
    ),
    Edit(
        "proxy-acts-without-a-client",
        f"{AUTHORIZATION}/evaluator.py::judge",
        "if roles[-1] in rules.proxies:",
        "if False:",
        (f"{JUDGED}::test_a_proxy_and_its_client_both_need_the_right",),
        "A13",
    ),
    Edit(
        "internal-role-of-any-method",
        f"{AUTHORIZATION}/evaluator.py::_is_internal",
        "(identity.role, identity.method) == (INTERNAL_ROLE, INTERNAL_METHOD)",
        "identity.role == INTERNAL_ROLE",
        (
            f"{JUDGED}::test_an_internal_process_is_trusted_by_its_token_alone_and_its_client_is_judged",
        ),
        "A13",
    ),
    Edit(
        "subscriptions-roles-do-not-count",
        f"{AUTHORIZATION}/evaluator.py::_of_subscription",
        "if roles is not None and role not in roles:",
        "if False:",
        (f"{JUDGED}::test_a_subscription_is_open_to_the_roles_that_its_rules_name",),
        "A14",
    ),
    Edit(
        "prefix-of-a-longer-role-counts",
        f"{AUTHORIZATION}/evaluator.py::has_prefix",
        'subscription.startswith(f"{role}-")',
        "subscription.startswith(role)",
        (f"{JUDGED}::test_a_subscription_named_after_a_longer_role_is_not_the_shorter_ones",),
        "A14",
    ),
    Edit(
        "namespaces-consumer-has-closed-subscriptions",
        f"{AUTHORIZATION}/evaluator.py::_of_grants",
        "if action is Action.CONSUME and isinstance(resource, NamespaceName):",
        "if False:",
        (
            f"{JUDGED}::test_a_subscription_is_open_to_the_roles_that_its_rules_name",
            NAIVE,
        ),
        "A14",
    ),
    Edit(
        "administrator-widens-its-clusters",
        f"{AUTHORIZATION}/change_rights.py::rights_of_tenant_change",
        "if stored.allowed_clusters != wanted.allowed_clusters:",
        "if False:",
        (
            "unit/auth/authorization/test_change_rights.py::test_an_administrator_rewrites_its_tenant_but_not_the_clusters",
        ),
        "A15",
    ),
    Edit(
        "viewer-has-all-namespaces",
        f"{AUTHORIZATION}/viewer_of_roles.py::viewer_for",
        "name.tenant not in tenants and judge(identity, Action.LOOKUP, name, view, rules).allowed",
        "name.tenant not in tenants",
        (f"{MODEL}::test_a_viewer_sees_a_namespace_exactly_where_it_may_list_its_topics",),
        "A16",
    ),
    Edit(
        "revoked-watcher-receives-more",
        "engine/broker/connection/watches.py::_Watch.send_changes",
        "if self._is_suspended:",
        "if False:",
        (f"{REVOKED}::test_a_revoked_watcher_is_suspended_and_nothing_else_of_its_connection",),
        "A19",
    ),
    Edit(
        "watcher-stays-suspended",
        "engine/broker/revocation.py::Revocation._judge_watches",
        "watch.resume()",
        "pass",
        (f"{REVOKED}::test_a_revoked_watcher_is_suspended_and_nothing_else_of_its_connection",),
    ),
    Edit(
        "a-preview-counts-clients-that-stay",
        "engine/broker/revocation.py::Revocation.losses",
        "if not self._judge.verdict_by(*client.right, view).allowed:",
        "if True:",
        (f"{LOSSES}::test_a_change_closes_the_clients_that_its_preview_counts",),
        "A36",
    ),
    Edit(
        "a-preview-judges-by-the-stored-policies",
        "engine/broker/revocation.py::_Changed.namespace",
        "return self._namespace if is_changed else",
        "return",
        (f"{LOSSES}::test_a_change_closes_the_clients_that_its_preview_counts",),
        "A36",
    ),
    Edit(
        "a-receipt-states-clients-that-are-still-open",
        "gateway/services/admin/losses.py::closed_since",
        'if not now["producers"] and not now["consumers"]:',
        "if True:",
        (
            "unit/gateway/services/connections/test_closed_clients.py::test_the_receipt_waits_until_none_is_open_any_more",
        ),
        "A36",
    ),
)
