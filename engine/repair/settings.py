"""Settings of auto-recovery: BookKeeper's names in snake_case, in brackets where the unit differs."""

from dataclasses import dataclass

from engine.base.settings import count, flag, number


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """Settings of the auditor and the replication worker. Times are in seconds, sizes in bytes."""

    auto_recovery_daemon_enabled: bool = flag(
        True,
        "run an auditor candidate and a replication worker in the bookie's process (autoRecoveryDaemonEnabled)",
    )
    http_server_changes_enabled: bool = flag(
        False,
        "whether a bookie's status port takes changes (PUT /api/v1/autorecovery/*, /api/v1/bookie/*), which need no "
        "login: for loopback, or a network of operators alone",
    )
    http_server_ledgers_enabled: bool = flag(
        False,
        "whether a bookie's status port shows all ledgers with their entries (/api/v1/ledger/*) to all who reach it, "
        "without a login; their deletion needs http_server_changes_enabled as well",
    )
    lost_bookie_recovery_delay: float = number(
        60.0,
        "seconds for which a bookie may be away before its ledgers are copied; the first auditor stores it, and then "
        "the stored value holds. Two bookies away at once are not waited for (lostBookieRecoveryDelay; BookKeeper 0)",
    )
    auditor_periodic_bookie_check_interval: float = number(
        86400.0,
        "seconds between checks whether ledgers name bookies that are away; 0: at the start alone "
        "(auditorPeriodicBookieCheckInterval)",
    )
    auditor_periodic_check_interval: float = number(
        604800.0,
        "seconds between checks whether every bookie lists the entries that it should have; 0: never "
        "(auditorPeriodicCheckInterval)",
    )
    auditor_periodic_placement_policy_check_interval: float = number(
        0.0,
        "seconds between checks of the racks of all closed ledgers' copies; 0: never "
        "(auditorPeriodicPlacementPolicyCheckInterval)",
    )
    repaired_placement_policy_not_adhering_bookie_enabled: bool = flag(
        False,
        "whether ledgers that a check of placement finds in too few racks or regions are marked and moved "
        "(repairedPlacementPolicyNotAdheringBookieEnabled)",
    )
    auditor_replicas_check_interval: float = number(
        0.0,
        "seconds between counts of entries with too few copies; 0: never (auditorReplicasCheckInterval)",
    )
    auditor_ledgers_per_second: float = number(
        100.0, "ledgers that a check of all ledgers asks bookies about in a second", low=0.1
    )
    open_ledger_rereplication_grace_period_s: float = number(
        30.0,
        "seconds that the writer of an open ledger has for replacing a lost bookie before the ledger is recovered and "
        "so closed (openLedgerRereplicationGracePeriod, in ms)",
        high=86400,
    )
    lock_release_of_failed_ledger_grace_period_s: float = number(
        300.0,
        "longest pause before another attempt at a ledger that could not be repaired, which starts at 1/32 of it "
        "(lockReleaseOfFailedLedgerGracePeriod, in ms)",
        low=0.1,
        high=86400,
    )
    rw_rereplicate_backoff_s: float = number(
        5.0,
        "seconds between looks for marked ledgers while there are none, or after a failure (rwRereplicateBackoffMs)",
        low=0.1,
        high=60,
    )
    rereplication_batch_bytes: int = count(
        2 << 20,
        "bytes read at once from a copy; twice as many are on their way to the new bookie",
        low=4096,
        high=4 << 20,
    )
    replication_rate_by_bytes: int = count(
        0, "bytes per second that a process copies at most; 0: no limit (replicationRateByBytes)"
    )
