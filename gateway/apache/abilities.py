"""The features of the console that an Apache Pulsar cluster lacks, each with the reason that is shown."""

from collections.abc import Mapping

from gateway.services.source import Ability

_LEDGERS = "Apache's REST interface gives no access to ledgers"
LACKS: Mapping[Ability, str] = {
    Ability.SOCKETS: "Programs connect to the Apache Pulsar itself, not to this console",
    Ability.COPIES: "Copies are made by workers, which the console in front of an Apache Pulsar does not have",
    Ability.CURSOR_PREVIEW: "Apache cannot count what a change of a cursor affects, nor make exactly that change",
    Ability.POLICY_PREVIEW: "Apache does not count what a policy would delete",
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
    Ability.CONNECTIONS: "Apache's REST interface lists no connections. A topic's page has its producers and consumers",
    Ability.FOREIGN_CHANGES: "The audit log has the changes that were made through this console alone",
}
