"""The features of the console that an Apache Pulsar cluster lacks, each with the reason that is shown."""

from collections.abc import Mapping

from gateway.services.source import Ability

_LEDGERS = "Apache's REST interface gives no access to ledgers"
LACKS: Mapping[Ability, str] = {
    Ability.TAIL: "Apache's REST interface returns single entries by their position, too slow to follow a topic",
    Ability.PUBLISH: "This console does not connect to the cluster as a client",
    Ability.CURSOR_PREVIEW: "Apache cannot count what a change of a cursor affects, nor make exactly that change",
    Ability.POLICY_PREVIEW: "Apache does not count what a policy would delete",
    Ability.TOPIC_POLICIES: "Policies of topics are not shown for a cluster of Apache Pulsar",
    Ability.TRACES: "Apache's brokers do not trace single messages",
    Ability.ANALYSES: f"Analyses read ledgers from bookies. {_LEDGERS}",
    Ability.GRANTS: "Permissions are not changed at a cluster of Apache Pulsar",
    Ability.BROKER_SETTINGS: "Settings of Apache's brokers are not changed here",
    Ability.LOAD_BALANCE: "Apache's REST interface has no plans of load balance",
    Ability.BOOKIE_STATES: "Apache lists bookies, without whether they answer or how full they are",
    Ability.RACKS: "Racks of bookies are not changed at a cluster of Apache Pulsar",
    Ability.REPAIR: f"Repair works on bookies. {_LEDGERS}",
    Ability.FUNCTIONS: "Functions of an Apache Pulsar are shown by pulsar-admin functions, sources and sinks",
    Ability.TRANSACTIONS: "Transactions of an Apache Pulsar are shown by pulsar-admin transactions alone",
    Ability.FOREIGN_CHANGES: "The audit log has the changes that were made through this console alone",
}
