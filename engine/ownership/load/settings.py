"""Settings of load balance, under Pulsar's names. All may change while brokers run, except the speed of the network."""

from dataclasses import dataclass

from engine.base.settings import count, flag, live, number, text
from engine.ownership.division import BY_FLOW, BY_TOPICS, EQUALLY
from engine.ownership.load.planned import PlanLimits
from engine.ownership.load.split_checks import SplitLimits


@dataclass(frozen=True, slots=True)
class LoadBalanceSettings:
    """Thresholds of load reports and of moves of bundles. Defaults are Pulsar's, those of its TransferShedder."""

    load_balancer_enabled: bool = live(
        flag(True, "whether placement and moves of bundles consider load (loadBalancerEnabled)")
    )
    load_balancer_shedding_enabled: bool = live(
        flag(True, "whether the leader moves bundles between brokers (loadBalancerSheddingEnabled)")
    )
    load_balancer_shedding_interval_minutes: int = live(
        count(
            1,
            "minutes between two checks of the balance (loadBalancerSheddingIntervalMinutes)",
            low=1,
            high=1440,
        )
    )
    load_balancer_shedding_grace_period_minutes: int = live(
        count(
            30,
            "minutes in which a bundle is not moved again (loadBalancerSheddingGracePeriodMinutes)",
            high=1440,
        )
    )
    load_balance_shedding_delay_in_seconds: int = live(
        count(
            180,
            "seconds without moves after moves (loadBalanceSheddingDelayInSeconds)",
            high=86_400,
        )
    )
    load_balancer_broker_load_target_std: float = live(
        number(
            0.25,
            "standard deviation of loads above which bundles move (loadBalancerBrokerLoadTargetStd)",
            high=1.0,
        )
    )
    load_balancer_shedding_condition_hit_count_threshold: int = live(
        count(
            3,
            "checks in a row that must find an imbalance (loadBalancerSheddingConditionHitCountThreshold)",
            low=1,
            high=100,
        )
    )
    load_balancer_max_number_of_broker_shedding_per_cycle: int = live(
        count(
            3,
            "brokers that bundles leave at a time (loadBalancerMaxNumberOfBrokerSheddingPerCycle)",
            low=1,
            high=100,
        )
    )
    load_balancer_broker_load_data_ttl_in_seconds: int = live(
        count(
            1800,
            "seconds after which a load report is too old (loadBalancerBrokerLoadDataTTLInSeconds)",
            low=60,
            high=86_400,
        )
    )
    load_balancer_bundle_unload_min_throughput_threshold: float = live(
        number(
            10.0,
            "MB/s that must move, unless it is 5 % of load (loadBalancerBundleUnloadMinThroughputThreshold)",
            high=1e6,
        )
    )
    load_balancer_report_update_threshold_percentage: int = live(
        count(
            10,
            "percent of change that a new load report needs (loadBalancerReportUpdateThresholdPercentage)",
            high=100,
        )
    )
    load_balancer_report_update_min_interval_millis: int = live(
        count(
            5_000,
            "milliseconds between two load reports, at least (loadBalancerReportUpdateMinIntervalMillis)",
            low=1_000,
            high=3_600_000,
        )
    )
    load_balancer_report_update_max_interval_minutes: int = live(
        count(
            15,
            "minutes between two load reports, at most (loadBalancerReportUpdateMaxIntervalMinutes)",
            low=1,
            high=1440,
        )
    )
    load_balancer_max_number_of_bundles_in_bundle_load_report: int = live(
        count(
            10,
            "bundles in a load report, by load (loadBalancerMaxNumberOfBundlesInBundleLoadReport)",
            low=1,
            high=1000,
        )
    )
    load_balancer_override_broker_nic_speed_gbps: float = number(
        0.0,
        "speed of the network in Gbit/s; 0: unknown, not considered (loadBalancerOverrideBrokerNicSpeedGbps)",
        high=10_000.0,
    )

    load_balancer_auto_bundle_split_enabled: bool = live(
        flag(True, "whether owners split overloaded bundles (loadBalancerAutoBundleSplitEnabled)")
    )
    load_balancer_split_interval_minutes: int = live(
        count(
            1,
            "minutes between two checks for overloaded bundles (loadBalancerSplitIntervalMinutes)",
            low=1,
            high=1440,
        )
    )
    load_balancer_namespace_bundle_split_condition_hit_count_threshold: int = live(
        count(
            3,
            "checks in a row that must find a bundle overloaded"
            " (loadBalancerNamespaceBundleSplitConditionHitCountThreshold)",
            low=1,
            high=100,
        )
    )
    load_balancer_max_number_of_bundles_to_split_per_cycle: int = live(
        count(
            10,
            "bundles that a broker splits in one check (loadBalancerMaxNumberOfBundlesToSplitPerCycle)",
            low=1,
            high=1000,
        )
    )
    load_balancer_namespace_bundle_max_topics: int = live(
        count(
            1_000,
            "topics above which a bundle is overloaded (loadBalancerNamespaceBundleMaxTopics)",
            low=1,
        )
    )
    load_balancer_namespace_bundle_max_sessions: int = live(
        count(
            1_000,
            "producers and consumers above which a bundle is overloaded (loadBalancerNamespaceBundleMaxSessions)",
            low=1,
        )
    )
    load_balancer_namespace_bundle_max_msg_rate: int = live(
        count(
            30_000,
            "messages/s in and out above which a bundle is overloaded (loadBalancerNamespaceBundleMaxMsgRate)",
            low=1,
        )
    )
    load_balancer_namespace_bundle_max_bandwidth_mbytes: int = live(
        count(
            100,
            "MiB/s in and out above which a bundle is overloaded (loadBalancerNamespaceBundleMaxBandwidthMbytes)",
            low=1,
        )
    )
    load_balancer_namespace_maximum_bundles: int = live(
        count(
            128,
            "bundles of a namespace up to which owners split (loadBalancerNamespaceMaximumBundles)",
            low=1,
            high=65_536,
        )
    )
    default_namespace_bundle_split_algorithm: str = live(
        text(
            EQUALLY,
            "algorithm by which owners split bundles (defaultNamespaceBundleSplitAlgorithm)",
            choices=(EQUALLY, BY_TOPICS, BY_FLOW),
        )
    )

    @property
    def split_limits(self) -> SplitLimits:
        """Thresholds of splits."""
        return SplitLimits(
            topics=self.load_balancer_namespace_bundle_max_topics,
            sessions=self.load_balancer_namespace_bundle_max_sessions,
            messages=self.load_balancer_namespace_bundle_max_msg_rate,
            bytes=self.load_balancer_namespace_bundle_max_bandwidth_mbytes * float(1 << 20),
            bundles=self.load_balancer_namespace_maximum_bundles,
            hits=self.load_balancer_namespace_bundle_split_condition_hit_count_threshold,
            splits_max=self.load_balancer_max_number_of_bundles_to_split_per_cycle,
        )

    @property
    def limits(self) -> PlanLimits:
        """Thresholds of the plan."""
        return PlanLimits(
            spread_max=self.load_balancer_broker_load_target_std,
            checks=self.load_balancer_shedding_condition_hit_count_threshold,
            sources_max=self.load_balancer_max_number_of_broker_shedding_per_cycle,
            quiet_ms=self.load_balance_shedding_delay_in_seconds * 1000,
            bundle_quiet_ms=self.load_balancer_shedding_grace_period_minutes * 60_000,
            report_age_max_ms=self.load_balancer_broker_load_data_ttl_in_seconds * 1000,
            bytes_min=self.load_balancer_bundle_unload_min_throughput_threshold * 1e6,
        )
