"""Mistakes in what people may do with their rights: levels that close nothing, pages that do not say what is so."""

from tests.mutants.edit import Edit

LEVELS = "unit/access/test_levels.py"
PAGES = "unit/admin_ui/access/test_rights_pages.py"
AUDIT = "unit/admin_ui/audit/test_entry_search.py"
GRANTS = "unit/admin_ui/access/test_grants.py"
PAYLOADS = "unit/gateway/access/test_payload_rules.py"
TOKENS = "unit/gateway/access/test_issued_tokens.py"
REASONS = "unit/auth/authorization/test_reasons.py"
CRAWL = (
    "unit/access/test_crawl.py"
    "::test_no_answer_and_no_push_has_anything_of_a_tenant_that_the_person_does_not_see"
)

EDITS = (
    Edit(
        "level-is-not-checked",
        "gateway/http/view.py::RestView.admit",
        'check_level(type(self), request.method or "", self.level)',
        "pass",
        (
            f"{LEVELS}::test_each_change_of_rest_is_closed_at_a_lower_level",
            f"{LEVELS}::test_each_change_of_the_console_is_closed_at_a_lower_level",
        ),
    ),
    Edit(
        "change-is-open-to-operators-unless-closed",
        "gateway/http/auth/levels.py::needed_level",
        "return AccessLevel.OPERATE if method in view.for_operators else AccessLevel.FULL",
        "return AccessLevel.OPERATE",
        (f"{LEVELS}::test_the_changes_that_a_lower_level_allows_are_listed",),
        "A37",
    ),
    Edit(
        "socket-of-any-level-consumes",
        "gateway/ws/sockets.py::run",
        "check_socket_level(kind, level)",
        "pass",
        (f"{LEVELS}::test_no_producer_and_no_consumer_opens_at_a_lower_level",),
    ),
    Edit(
        "right-without-the-grants-of-its-topic",
        "engine/auth/authorization/reasons.py::_grants_on",
        "yield place, access.topics.get(place.full, {})",
        "yield place, {}",
        (f"{REASONS}::test_a_right_has_a_reason_exactly_where_the_judge_allows_it",),
    ),
    Edit(
        "rights-of-foreign-tenants-are-shown",
        "admin_ui/access/selectors.py::reach",
        "sees_all = viewer.everything or role == own_role",
        "sees_all = True",
        (f"{PAGES}::test_the_rights_of_a_role_are_shown_only_for_the_callers_tenants",),
    ),
    Edit(
        "roles-of-foreign-tenants-are-listed",
        "admin_ui/access/selectors.py::roles",
        "None if viewer.everything else viewer.tenants",
        "None",
        (f"{PAGES}::test_roles_are_those_of_the_callers_own_tenants",),
    ),
    Edit(
        "closed-by-level-is-shown-as-open",
        "admin_ui/access/operations.py::_refusal",
        "check_level(view, method, level)",
        "pass",
        (f"{PAGES}::test_actions_that_a_level_closes_are_absent_from_the_callers_rights",),
    ),
    Edit(
        "audit-is-sorted-for-each-answer",
        "admin_ui/audit/entry_search.py::search",
        'answered=F("status") + 0',
        'answered=F("status")',
        (f"{AUDIT}::test_each_filter_is_answered_in_the_order_of_the_list_without_a_sort",),
    ),
    Edit(
        "mark-names-who-made-the-change",
        "admin_ui/audit/selectors.py::marks",
        'item.actor if administers else ""',
        "item.actor",
        (f"{AUDIT}::test_changes_of_a_topic_are_marks_for_each_who_may_see_it",),
    ),
    Edit(
        "entry-of-a-partition-is-not-of-its-topic",
        "admin_ui/audit/subject.py::_whole",
        "return split_partition(topic)[0] or topic",
        "return topic",
        (f"{AUDIT}::test_entries_name_what_they_are_about",),
    ),
    Edit(
        "payload-rules-are-not-asked",
        "gateway/http/view.py::RestView.admit",
        'if reveals(type(self), request.method or ""):',
        "if False:",
        (
            f"{PAYLOADS}::test_every_call_that_shows_payloads_is_refused_to_people_from_whom_they_are_hidden",
        ),
    ),
    Edit(
        "a-grant-makes-rights-of-a-damaged-record",
        "engine/tenancy/tenants.py::require_whole",
        "    if damage:\n",
        "    if False:\n",
        (f"{GRANTS}::test_a_change_of_a_grant_makes_no_rights_of_a_damaged_record",),
        "A32",
    ),
    Edit(
        "a-damaged-payload-rule-is-passed-over",
        "gateway/access/payload_rules.py::shows",
        "            return False\n",
        "            continue\n",
        (f"{PAYLOADS}::test_a_damaged_rule_hides_what_no_rule_before_it_decides",),
    ),
    Edit(
        "a-personal-token-sees-hidden-payloads",
        "gateway/http/auth/payloads.py::is_ruled",
        "return by_person or level is not AccessLevel.FULL",
        "return identity.method == SESSION or level is not AccessLevel.FULL",
        (f"{TOKENS}::test_a_personal_token_follows_the_payload_rules_as_its_person_does",),
    ),
    Edit(
        "reveal-is-not-recorded",
        "admin_ui/audit/recording.py::is_reveal",
        "return is_ruled(identity, level_of(request))",
        "return False",
        (
            f"{PAYLOADS}::test_each_reveal_is_recorded_with_the_person_and_the_topic",
            f"{PAYLOADS}::test_a_reveal_that_cannot_be_recorded_is_not_made",
        ),
    ),
    Edit(
        "last-payload-rule-decides",
        "gateway/access/payload_rules.py::shows",
        "for rule in rules:",
        "for rule in reversed(rules):",
        (f"{PAYLOADS}::test_the_first_rule_that_matches_decides_and_without_any_the_level",),
        "A38",
    ),
    Edit(
        "reader-of-any-level-shows-payloads",
        "gateway/ws/sockets.py::run",
        "await check_payloads(clusters_of(scope), identity, level, places)",
        "pass",
        (f"{PAYLOADS}::test_a_reader_at_a_lower_level_follows_the_rules_and_is_recorded",),
    ),
    Edit(
        "grant-overwrites-another-change",
        "admin_ui/grants/services.py::apply",
        "if _words(grant, role, _Records([], policies)) != before:",
        "if False:",
        (f"{GRANTS}::test_a_change_is_refused_when_the_grant_is_another_meanwhile",),
    ),
    Edit(
        "administrators-are-overwritten",
        "admin_ui/grants/services.py::_set_administrator",
        "if _words(grant, role, records) != before:",
        "if False:",
        (f"{GRANTS}::test_administrators_that_changed_meanwhile_are_not_overwritten",),
    ),
    Edit(
        "brokers-accept-tokens-for-gateways",
        "gateway/access/issued_tokens.py::claims_of",
        "return claims | {GATEWAY_ROLE: new.role, GATEWAY_LEVEL: new.level}",
        'return claims | {"sub": new.role, GATEWAY_ROLE: new.role, GATEWAY_LEVEL: new.level}',
        (
            f"{TOKENS}::test_a_token_below_level_full_is_refused_by_brokers_and_narrowed_at_gateways",
        ),
        "A39",
    ),
    Edit(
        "personal-token-outlives-the-role",
        "gateway/access/issued_tokens.py::personal_level",
        "return lower_of(acting.level, evidence.level)",
        "return evidence.level",
        (f"{TOKENS}::test_a_personal_token_has_no_more_than_the_level_of_its_person_now",),
    ),
    Edit(
        "personal-token-above-the-own-level",
        "admin_ui/tokens/api.py::OwnTokensView.post",
        'if not AccessLevel(acting.level).includes(AccessLevel(body["level"])):',
        "if False:",
        (f"{TOKENS}::test_a_personal_token_has_the_acting_role_at_most_at_its_level",),
    ),
    Edit(
        "token-is-marked-as-revoked-although-it-is-not",
        "admin_ui/tokens/services.py::revoke",
        "await cluster.link.arun(partial(_revoke, record.token_id, expires_at))",
        "pass",
        (
            f"{TOKENS}::test_a_revoked_token_is_refused_at_once",
            f"{TOKENS}::test_a_token_is_not_marked_as_revoked_while_it_is_not",
        ),
    ),
    Edit(
        "unknown-level-is-full",
        "gateway/access/issued_tokens.py::lower_of",
        "level if level in LEVELS else AccessLevel.READ",
        "level if level in LEVELS else AccessLevel.FULL",
        (f"{TOKENS}::test_a_token_with_a_level_that_is_not_known_only_reads",),
    ),
    Edit(
        "hidden-payloads-are-offered",
        "admin_ui/access/operations.py::_refusal",
        "if reveals(view, method):",
        "if False:",
        (f"{PAYLOADS}::test_an_operation_that_would_show_hidden_payloads_is_closed",),
    ),
    Edit(
        "namespaces-of-all-tenants-are-offered",
        "admin_ui/topics/selectors.py::scopes",
        'tenant in ("", name.partition("/")[0]) and viewer.sees(name)',
        'tenant in ("", name.partition("/")[0])',
        (CRAWL,),
        "A6",
    ),
    Edit(
        "saved-views-of-all-people-are-listed",
        "admin_ui/saved_views/api.py::ViewsView.get",
        "SavedView.objects.filter(owner=actor_of(request))",
        "SavedView.objects.all()",
        (CRAWL,),
    ),
    Edit(
        "personal-tokens-of-all-people-are-listed",
        "admin_ui/tokens/api.py::_TokensBase.listed",
        "IssuedToken.objects.filter(_chosen(params), **mine)",
        "IssuedToken.objects.filter(_chosen(params))",
        (CRAWL,),
    ),
    Edit(
        "document-is-generated-by-two-threads-at-once",
        "admin_ui/openapi.py::document_text",
        "with _GENERATING:",
        "if True:",
        ("unit/gateway/test_console_api.py::test_requests_at_once_generate_one_document",),
    ),
    Edit(
        "documentation-of-an-earlier-build",
        "gateway/http/static_files.py::documentation",
        "_site(directory, DOCUMENTATION_PREFIX, written_ns)",
        "_site(directory, DOCUMENTATION_PREFIX, 0)",
        ("unit/gateway/http/test_documentation.py::test_a_new_build_is_served_at_once",),
        "A40",
    ),
)
