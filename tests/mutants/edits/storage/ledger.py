"""Mistakes in the ledger client."""

from tests.mutants.edit import Edit

RECOVERY = "engine/ledger/recovery.py"
INVARIANTS = "unit/ledger/test_invariants.py"
WRITER = "engine/ledger/writing/writer.py"

REGIONS = "unit/ledger/test_regions.py"

EDITS = (
    Edit(
        "regions-do-not-count-for-a-confirmation",
        "engine/ledger/quorum.py::AckTracker._in_enough_regions",
        "return sorted(marks.values())[len(marks) - self._regions_min]",
        "return max(marks.values())",
        (f"{REGIONS}::test_i41_an_ack_quorum_in_one_region_confirms_nothing",),
        "I41",
    ),
    Edit(
        "replacements-leave-a-write-set-in-one-region",
        "engine/ledger/cluster/placement.py::RegionAwarePlacement._filled",
        "if self.enough(chosen, write_quorum, candidates):",
        "if chosen:",
        (f"{REGIONS}::test_i41_replacements_keep_enough_regions_in_every_write_set",),
        "I41",
    ),
    Edit(
        "a-writer-waits-in-too-few-regions",
        "engine/ledger/writing/ensemble.py::Ensemble.enough",
        "or len(regions) < self._regions_min",
        "",
        (f"{REGIONS}::test_i41_a_writer_without_enough_regions_fails",),
        "I41",
    ),
    Edit(
        "recovery-ends-one-entry-early",
        f"{RECOVERY}::_Recovery.run",
        "last = entry - 1",
        "last = max(entry - 2, -1)",
        (f"{INVARIANTS}::test_i1_recovery_keeps_every_confirmed_entry_whichever_bookie_hangs",),
        "I1",
    ),
    Edit(
        "closed-behind-what-was-only-sent",
        f"{WRITER}::LedgerWriter._close",
        "last = self._confirmed - 1",
        "last = self._next - 1",
        (f"{INVARIANTS}::test_i1_close_ends_at_the_last_confirmed_entry",),
        "I1",
    ),
    Edit(
        "last-replica-never-asked",
        "engine/ledger/reading/replica_reads.py::ReplicaReads.run",
        "if turn < self._quorum and (not self._running or now >= overtake_at):",
        "if turn < self._quorum - 1 and (not self._running or now >= overtake_at):",
        (f"{INVARIANTS}::test_i2_confirmed_entries_are_readable_with_all_but_one_copy_lost",),
        "I2",
    ),
    Edit(
        "write-back-skipped",
        f"{RECOVERY}::_Recovery.run",
        "await self._write_back(entry, entries)",
        "pass",
        (f"{INVARIANTS}::test_i3_recovered_entries_lie_on_an_ack_quorum_of_their_write_set",),
        "I3",
    ),
    Edit(
        "digest-not-compared",
        "engine/ledger/digest.py::Digest.check",
        "return crc32c(payload, crc32c(head)) == stored_crc",
        "return True",
        (f"{INVARIANTS}::test_i4_a_damaged_copy_is_never_delivered",),
        "I4",
    ),
    Edit(
        "end-of-a-closed-ledger-moves",
        "engine/ledger/ledger_metadata.py::LedgerMetadata.check_follows",
        "if not same or ",
        "if ",
        (f"{INVARIANTS}::test_i5_i6_only_forward_steps_of_metadata_are_allowed",),
        "I5",
    ),
    Edit(
        "anothers-close-written-over",
        "engine/ledger/metadata_update.py::write_closed",
        """
        _refuse_unless_open(stored, ledger_id)
        return stored.closed(last_entry, length)
        """,
        "return stored.closed(last_entry, length)",
        (f"{INVARIANTS}::test_i5_a_closed_ledger_keeps_its_end",),
        "I5",
    ),
    Edit(
        "state-goes-back",
        "engine/ledger/ledger_metadata.py::LedgerMetadata.check_follows",
        "if self.state < before.state:",
        "if self.state < before.state and before.state is LedgerState.CLOSED:",
        (f"{INVARIANTS}::test_i5_i6_only_forward_steps_of_metadata_are_allowed",),
        "I6",
    ),
    Edit(
        "recovery-without-fence",
        RECOVERY,
        "FENCE_URGENT = DO_FENCING | HIGH_PRIORITY",
        "DO_FENCING = 0\nFENCE_URGENT = HIGH_PRIORITY",
        (f"{INVARIANTS}::test_i7_a_covered_fence_ends_all_confirmation",),
        "I7",
    ),
    Edit(
        "fenced-taken-for-stored",
        f"{WRITER}::LedgerWriter.add_answered",
        "if rc == EOK and",
        "if rc in (EOK, EFENCED) and",
        ("unit/ledger/test_recovery.py::test_a_fenced_writer_confirms_nothing_more",),
    ),
    Edit(
        "last-confirmed-off-by-one",
        f"{WRITER}::LedgerWriter.append",
        "self._confirmed - 1",
        "max(self._confirmed, first - 1)",
        (f"{INVARIANTS}::test_i8_no_entry_carries_more_than_was_confirmed",),
        "I8",
    ),
    Edit(
        "resent-as-if-confirmed",
        f"{WRITER}::LedgerWriter._resend",
        "first, self._confirmed - 1",
        "first, self._next - 1",
        (
            "unit/ledger/writing/test_replaced_bookies.py::test_i8_a_resent_entry_carries_no_more_than_is_confirmed",
        ),
        "I8",
    ),
    Edit(
        "reader-believes-what-is-stored",
        "engine/ledger/reading/last_confirmed.py::read_tail",
        "return Tail(confirmed, common.entry_id, common.length)",
        "return Tail(common.entry_id, common.entry_id, common.length)",
        (f"{INVARIANTS}::test_i8_a_reader_believes_no_entry_the_writer_has_not_confirmed",),
        "I8",
    ),
    Edit(
        "readers-mark-falls",
        "engine/ledger/reading/reader.py::LedgerReader.read_last_confirmed",
        "if known > self._known:",
        "if known != self._known:",
        (f"{INVARIANTS}::test_i9_a_readers_last_confirmed_never_falls",),
        "I9",
    ),
    Edit(
        "gaps-confirmed",
        "engine/ledger/quorum.py::AckTracker.acked",
        "if first > below:",
        "if stop < below:",
        (f"{INVARIANTS}::test_i10_confirmations_are_in_order_without_gaps",),
        "I10",
    ),
    Edit(
        "receipt-before-quorum",
        "engine/ledger/quorum.py::AckTracker.confirmed",
        "sorted(self._below)[self._ensemble - self._ack_quorum]",
        "max(self._below)",
        ("unit/ledger/test_quorum.py::test_confirmed_is_the_first_entry_short_of_its_quorum",),
        "I2",
    ),
    Edit(
        "answers-of-the-replaced-count",
        f"{WRITER}::LedgerWriter._change_ensemble",
        "self._tracker.replace(position, start)",
        "pass",
        (
            "unit/ledger/writing/test_replaced_bookies.py::test_i11_answers_before_the_replacement_do_not_count_for_the_successor",
        ),
        "I11",
    ),
    Edit(
        "segment-starts-at-what-was-sent",
        f"{WRITER}::LedgerWriter._change_ensemble",
        "start = self._confirmed",
        "start = self._next",
        (f"{INVARIANTS}::test_i12_a_new_segment_starts_behind_the_last_confirmed_entry",),
        "I12",
    ),
    Edit(
        "ensemble-changed-during-recovery",
        "engine/ledger/metadata_update.py::_refuse_unless_open",
        "if stored.state is LedgerState.IN_RECOVERY:",
        "if False:",
        (f"{INVARIANTS}::test_i13_no_ensemble_change_once_recovery_began",),
        "I13",
    ),
    Edit(
        "version-not-compared",
        "engine/ledger/metadata_update.py::change",
        "stat = await store.put(path, encode(wanted), stored.version)",
        "stat = await store.put(path, encode(wanted))",
        (
            "unit/ledger/test_lost_races.py::test_i14_a_change_between_read_and_write_is_not_overwritten",
        ),
        "I14",
    ),
    Edit(
        "lost-race-taken-for-won",
        "engine/ledger/metadata_update.py::change",
        """
        except BadVersionError:
            stored = None
        """,
        """
        except BadVersionError:
            return wanted
        """,
        (
            "unit/ledger/test_lost_races.py::test_i14_a_change_between_read_and_write_is_not_overwritten",
        ),
        "I14",
    ),
    Edit(
        "too-few-prove-absence",
        f"{RECOVERY}::_Recovery._verdict",
        "absent = self._quorum - self._acks + 1",
        "absent = max(self._quorum - self._acks, 1)",
        (f"{INVARIANTS}::test_i15_unknown_answers_never_prove_absence",),
        "I15",
    ),
    Edit(
        "recovery-starts-before-the-last-segment",
        f"{RECOVERY}::_Recovery._fence",
        "max([self._last_segment.first - 1, -1, *lacs])",
        "max([-1, *lacs])",
        (f"{INVARIANTS}::test_i16_recovery_reads_nothing_before_the_last_segment",),
        "I16",
    ),
    Edit(
        "recovery-given-up-closes-empty",
        f"{RECOVERY}::recover",
        """
        except TimeoutError:
            raise LedgerRecoveryError(
                f"ledger {ledger_id}: no verdict within {settings.recovery_timeout_s} s"
            ) from None
        """,
        """
        except (TimeoutError, asyncio.CancelledError):
            last, length = -1, 0
        """,
        (f"{INVARIANTS}::test_i17_an_abandoned_recovery_can_be_completed_by_the_next",),
        "I17",
    ),
    Edit(
        "taken-id-adopted",
        "engine/ledger/client.py::LedgerClient._is_stored",
        "return stored == data",
        "return True",
        (f"{INVARIANTS}::test_i18_a_taken_id_is_never_adopted",),
        "I18",
    ),
    Edit(
        "created-twice",
        "engine/ledger/client.py::LedgerClient._store_new",
        """
        except StoreUnavailableError:
            if not await self._is_stored(path, data):
                raise
        """,
        """
        except StoreUnavailableError:
            continue
        """,
        (f"{INVARIANTS}::test_i18_a_create_whose_answer_was_lost_is_recognised_by_its_token",),
        "I18",
    ),
    Edit(
        "one-absence-denies",
        "engine/ledger/reading/replica_reads.py::ReplicaReads._failure",
        "if all(code in MISSING for code in self._codes):",
        "if any(code in MISSING for code in self._codes):",
        (f"{INVARIANTS}::test_i21_damage_and_timeouts_are_not_absence",),
        "I21",
    ),
    Edit(
        "password-not-compared",
        "engine/ledger/client.py::LedgerClient.open",
        "metadata.password is not None and metadata.password != password",
        "False",
        (f"{INVARIANTS}::test_i25_a_wrong_password_neither_writes_nor_fences",),
        "I25",
    ),
    Edit(
        "entry-of-another-slot-delivered",
        "engine/ledger/digest.py::Digest._check_crc32c_batch",
        "or entry_id != entry",
        "",
        (f"{INVARIANTS}::test_i32_an_entry_in_the_place_of_another_is_a_damaged_copy",),
        "I32",
    ),
)
