"""Everbyte: an ordered key-value store that is simply there after a crash."""

from ._everbyte import (
    BusyError,
    DamagedError,
    Entries,
    EverbyteError,
    ExistsError,
    NotFoundError,
    SpaceError,
    Store,
    Table,
    Transaction,
    View,
    open,
)

__all__ = [
    "BusyError",
    "DamagedError",
    "Entries",
    "EverbyteError",
    "ExistsError",
    "NotFoundError",
    "SpaceError",
    "Store",
    "Table",
    "Transaction",
    "View",
    "open",
]
