"""Transactions of a cluster that are not ended: their list, the coordinators that keep them, and the abort of one."""

from admin_ui.resource import Resource
from admin_ui.transactions.api import AbortTransactionView, TransactionsView

TRANSACTIONS = Resource(
    routes={
        "transactions": TransactionsView,
        "transactions/<seg:coordinator>/<seg:number>/abort": AbortTransactionView,
    },
)
