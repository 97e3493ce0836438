"""Mistakes in sign-in: an account that shows, a session that outlives its rights, a set-up that stays open."""

from tests.mutants.edit import Edit

SIGN_IN = "unit/gateway/people/test_sign_in.py"
OWN_SESSION = "unit/gateway/people/test_own_session.py"
PEOPLE = "unit/gateway/people/test_people.py"
PROVIDERS = "unit/gateway/people/test_providers.py"
DATABASE = "unit/gateway/people/test_database_settings.py"
OUTAGES = "integration/gateway/test_database_outages.py"
FAILING = "unit/gateway/people/test_failing_database.py"
ENDED = "unit/gateway/people/test_ended_meanwhile.py"
SET_UP = "unit/gateway/people/test_set_up.py"
OPEN_SESSIONS = "unit/gateway/http/auth/test_open_sessions.py"

EDITS = (
    Edit(
        "a-refusal-shows-that-a-person-exists",
        "gateway/people/signing_in.py::sign_in",
        "        raise WrongCredentialsError\n",
        "        from gateway.people.accounts import users\n"
        "        raise WrongCredentialsError if users().filter(username=name).exists() else Forbidden(NO_ROLE)\n",
        (f"{SIGN_IN}::test_a_refusal_is_the_same_for_every_cause",),
        "A26",
    ),
    Edit(
        "sign-in-without-csrf",
        "admin_ui/session/api.py::_DoorView.begin",
        "        enforce_csrf(request)\n",
        "",
        (f"{SIGN_IN}::test_a_sign_in_needs_the_csrf_token",),
    ),
    Edit(
        "session-key-of-before-the-sign-in-stays",
        "gateway/people/signing_in.py::begin_session",
        "        PersonSession.objects.filter(pk=shown).delete()\n",
        "        pass\n",
        (f"{SIGN_IN}::test_a_sign_in_gives_a_new_key_and_ends_the_session_that_was_shown",),
        "A27",
    ),
    Edit(
        "session-key-stays-when-the-role-changes",
        "gateway/people/sessions.py::replace_key",
        "    session.create()\n",
        "    session.save(must_create=True)\n",
        (f"{OWN_SESSION}::test_a_person_acts_as_one_of_its_roles",),
        "A27",
    ),
    Edit(
        "an-ended-session-has-a-new-key",
        "gateway/people/sessions.py::replace_key",
        "    if not deleted:\n        raise _ended()\n",
        "",
        (f"{ENDED}::test_a_session_that_ended_meanwhile_has_no_new_key",),
        "A27",
    ),
    Edit(
        "ending-misses-a-key-that-is-being-replaced",
        "gateway/people/sessions.py::end_sessions",
        "    lock_sessions(user_id)\n",
        "",
        (f"{ENDED}::test_changes_of_the_sessions_of_a_person_wait_for_each_other",),
        "A27",
    ),
    Edit(
        "damaged-roles-are-those-of-the-name",
        "gateway/people/acting.py::roles_of",
        "(person.roles != [] or person.provider)",
        "(person.roles or person.provider)",
        (
            "unit/gateway/people/test_damaged_people.py"
            "::test_damaged_roles_give_no_right_and_can_be_repaired",
        ),
    ),
    Edit(
        "a-person-acts-as-any-role",
        "gateway/people/signing_in.py::act_as",
        "if role not in {item.role for item in roles_of(request.user)}:",
        "if not role:",
        (f"{OWN_SESSION}::test_a_person_acts_as_one_of_its_roles",),
    ),
    Edit(
        "a-role-that-was-taken-away-acts",
        "gateway/people/acting.py::acting_of",
        "if item.role == chosen), roles[0])",
        "if item.role == chosen), ActingRole(chosen) if chosen else roles[0])",
        (f"{OWN_SESSION}::test_a_role_that_was_taken_away_acts_no_more",),
        "A27",
    ),
    Edit(
        "a-superuser-who-only-reads-looks-as-others",
        "gateway/people/acting.py::is_superuser",
        "return acting.level == AccessLevel.FULL and has_superuser_role(acting.role, user)",
        "return has_superuser_role(acting.role, user)",
        (f"{OWN_SESSION}::test_others_do_not_look_as_a_role",),
    ),
    Edit(
        "a-superuser-of-a-lower-level-is-offered-less-than-it-reads",
        "admin_ui/session/selectors.py::_person",
        "not acting.viewing_as and has_superuser_role(acting.role, user)",
        "acting.superuser",
        (f"{OWN_SESSION}::test_a_superuser_of_a_lower_level_reads_everything",),
    ),
    Edit(
        "looking-as-a-role-may-change",
        "gateway/people/acting.py::acting_of",
        "return Acting(viewed, AccessLevel.READ, True, True)",
        "return Acting(viewed, current.level, True, True)",
        (f"{OWN_SESSION}::test_a_superuser_looks_as_a_role_and_only_reads",),
    ),
    Edit(
        "a-new-password-leaves-other-sessions",
        "gateway/people/signing_in.py::change_password",
        "        end_sessions(user.pk, besides=request.session.session_key)\n",
        "",
        (f"{OWN_SESSION}::test_a_new_password_ends_the_other_sessions",),
    ),
    Edit(
        "a-stolen-session-guesses-the-password",
        "gateway/people/signing_in.py::change_password",
        "if authenticate(request, username=name, password=current) is None:",
        "if not user.check_password(current):",
        (f"{OWN_SESSION}::test_guesses_at_the_current_password_are_throttled",),
    ),
    Edit(
        "a-one-time-password-stays",
        "gateway/people/signing_in.py::sign_in",
        "    if must_change and not new_password:\n        raise PasswordChangeNeededError\n",
        "",
        (f"{PEOPLE}::test_a_created_person_signs_in_once_with_the_password_of_the_answer",),
    ),
    Edit(
        "a-sign-in-replaces-any-password",
        "gateway/people/signing_in.py::sign_in",
        "        if must_change:\n            replace_password(user, password, new_password,",
        "        if new_password:\n            replace_password(user, password, new_password,",
        (f"{PEOPLE}::test_a_new_password_at_sign_in_is_for_one_time_passwords_alone",),
    ),
    Edit(
        "a-session-of-another-person-is-ended",
        "gateway/people/sessions.py::end_sessions",
        "        rows = rows.filter(public_id=public_id)\n",
        "        rows = PersonSession.objects.filter(public_id=public_id)\n",
        (f"{OWN_SESSION}::test_sessions_are_listed_and_end_one_by_one",),
    ),
    Edit(
        "the-last-superuser-goes",
        "gateway/people/accounts.py::_check_a_superuser_is_left",
        "    active = users().filter(is_active=True)",
        "    active = users()",
        (f"{PEOPLE}::test_the_last_superuser_stays",),
    ),
    Edit(
        "people-without-authentication",
        "admin_ui/people/api.py::_PeopleView.admit",
        "if off and self.may_change(request):",
        "if False:",
        (f"{PEOPLE}::test_where_callers_are_not_identified_they_create_no_person",),
    ),
    Edit(
        "set-up-stays-open",
        "gateway/people/set_up.py::is_needed",
        " and not get_user_model().objects.exists()",
        "",
        (f"{SET_UP}::test_the_code_makes_the_first_person_a_superuser_once",),
        "A28",
    ),
    Edit(
        "two-first-people",
        "gateway/people/set_up.py::complete",
        "if not deleted or get_user_model().objects.exists():",
        "if get_user_model().objects.exists():",
        (f"{SET_UP}::test_of_two_set_ups_at_once_the_first_makes_the_person",),
        "A28",
    ),
    Edit(
        "guesses-at-the-set-up-are-free",
        "gateway/people/set_up.py::_is_right",
        "    row.failures += 1\n",
        "",
        (f"{SET_UP}::test_guesses_are_throttled_for_all_gateways",),
    ),
    Edit(
        "a-link-signs-a-browser-in",
        "admin_ui/session/redirects.py::_begun",
        ' and kept["state"] == request.GET.get("state")',
        "",
        (f"{PROVIDERS}::test_a_way_back_that_this_browser_did_not_begin_is_refused",),
        "A29",
    ),
    Edit(
        "a-provider-leads-to-another-site",
        "admin_ui/session/redirects.py::safe_path",
        " and url_has_allowed_host_and_scheme(path, allowed_hosts=None)",
        "",
        (f"{PROVIDERS}::test_a_browser_is_sent_to_paths_of_the_console_alone",),
    ),
    Edit(
        "an-id-token-for-another-client-counts",
        "gateway/people/provider_client.py::ProviderClient._proven",
        '"aud": {"essential": True, "value": self.settings.client_id},',
        "",
        (f"{PROVIDERS}::test_an_id_token_that_proves_nothing_is_refused",),
        "A29",
    ),
    Edit(
        "an-id-token-of-an-earlier-sign-in-counts",
        "gateway/people/provider_client.py::ProviderClient._proven",
        "nonce=begun.nonce",
        "nonce=None",
        (f"{PROVIDERS}::test_an_id_token_that_proves_nothing_is_refused",),
        "A29",
    ),
    Edit(
        "another-issuer-answers",
        "gateway/people/provider_client.py::ProviderClient._loaded",
        'if metadata.get("issuer") != self.settings.issuer:',
        "if False:",
        (f"{PROVIDERS}::test_a_discovery_document_of_another_issuer_is_refused",),
    ),
    Edit(
        "a-provider-signs-in-who-is-not-active",
        "gateway/people/provider_people.py::sign_in",
        "if not person.user.is_active:",
        "if False:",
        (f"{PROVIDERS}::test_a_person_who_is_not_active_is_refused",),
    ),
    Edit(
        "groups-without-a-role-sign-in",
        "gateway/people/provider_people.py::sign_in",
        "if not roles:",
        "if False:",
        (f"{PROVIDERS}::test_groups_without_a_role_are_refused",),
    ),
    Edit(
        "hashes-without-a-bound",
        "gateway/people/password_work.py::PasswordWork.run",
        "if self._calls >= WAITING_MAX:",
        "if False:",
        (
            "unit/gateway/people/test_password_work.py::test_attempts_beyond_a_bound_are_refused_at_once",
        ),
    ),
    Edit(
        "a-connection-stays-broken",
        "gateway/database/postgresql/base.py::DatabaseWrapper.ensure_connection",
        "            if not self.is_usable():\n",
        "            if False:\n",
        (f"{DATABASE}::test_after_an_error_a_connection_that_serves_no_more_is_replaced",),
    ),
    Edit(
        "each-call-waits-for-a-database-that-is-away",
        "gateway/database/postgresql/base.py::DatabaseWrapper.get_new_connection",
        "        if self.alias in self._away_until_s:\n            self._reach()\n",
        "",
        (
            f"{OUTAGES}::test_calls_are_refused_at_once_while_the_server_is_away_and_served_when_it_is_back",
        ),
        "A35",
    ),
    Edit(
        "a-database-that-stands-still-holds-a-thread",
        "gateway/database/postgresql/bounded.py::BoundedConnection._bounded",
        "time.monotonic() > ends_at_s",
        "False",
        (
            f"{OUTAGES}::test_a_server_that_stands_still_costs_one_call_its_limit_and_the_next_nothing",
        ),
    ),
    Edit(
        "a-statement-waits-for-a-lock-for-ever",
        "gateway/database/postgresql/base.py::DatabaseWrapper._configure_connection",
        "            connection.limit(bounded=True)\n",
        "            pass\n",
        (f"{OUTAGES}::test_a_statement_that_waits_for_a_lock_is_ended_by_the_server",),
    ),
    Edit(
        "a-gateway-ends-while-another-migrates",
        "gateway/serve.py::_migrating",
        "        connection.connection.limit(bounded=False)\n",
        "",
        (f"{OUTAGES}::test_gateways_wait_for_one_that_migrates_for_long",),
    ),
    Edit(
        "the-database-of-another-host",
        "gateway/database/settings.py::DatabaseSettings._options",
        '"verify-full"',
        '"require"',
        (f"{DATABASE}::test_in_tls_the_certificate_must_be_trusted_and_for_the_host",),
    ),
    Edit(
        "a-sign-in-is-half-made",
        "gateway/people/signing_in.py::sign_in",
        "    with transaction.atomic():\n        if must_change:",
        "    if True:\n        if must_change:",
        (f"{FAILING}::test_a_sign_in_is_whole_or_not_at_all",),
        "A27",
    ),
    Edit(
        "an-error-of-the-database-ends-the-session",
        "gateway/people/sessions.py::SessionStore.save",
        "if isinstance(error.__context__, OperationalError | InterfaceError):",
        "if False:",
        (f"{FAILING}::test_a_sign_in_is_whole_or_not_at_all",),
    ),
    Edit(
        "a-feed-keeps-the-level-of-its-start",
        "gateway/http/auth/handshakes.py::watch_credentials",
        "return acting.level == level",
        "return True",
        (f"{OPEN_SESSIONS}::test_a_live_feed_ends_with_its_session",),
        "A20",
    ),
)
