"""Types and promises of the package. Keys and values are bytes; keys are in the order of their
bytes. A write is settled when it returns: it survives a power cut."""

import os
from types import TracebackType
from typing import Iterable, Iterator, Optional, Tuple, Type, TypeVar, Union, overload

_T = TypeVar("_T")

class EverbyteError(Exception):
    """An error of a store; its text says what happened, where, and what to do next."""

class NotFoundError(EverbyteError):
    """No store, table or version of this name."""

class ExistsError(EverbyteError):
    """The name is taken."""

class BusyError(EverbyteError):
    """In use by another process or handle, or a transaction of this thread is in the way."""

class SpaceError(EverbyteError):
    """The disk, the store or a quota is full. Nothing changed."""

class DamagedError(EverbyteError):
    """Bytes on media contradict themselves."""

def open(path: Union[str, os.PathLike[str]], *, create: bool = False, max_size: int = 1 << 40) -> Store:
    """Opens a store; with `create` makes one of at most `max_size` bytes if there is none."""

class Store:
    """One file, with named key-value stores. A context manager, which closes it."""

    def kv(self, name: str = "kv", *, create: bool = True) -> Table:
        """Opens a key-value store: its main table. One at a time has it open."""
    def close(self) -> None:
        """Closes the store and its tables. Views, iterators and transactions that are open keep it
        open for this process until they are closed or gone."""
    def __enter__(self) -> Store: ...
    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool: ...

class Entries(Iterator[Tuple[bytes, bytes]]):
    """Entries of one version, in order; it keeps the version."""

    def __iter__(self) -> Entries: ...
    def __next__(self) -> Tuple[bytes, bytes]: ...

class View:
    """A table at one settled version: it stays as it is, whatever is written. A context manager."""

    @overload
    def get(self, key: bytes) -> Optional[bytes]: ...
    @overload
    def get(self, key: bytes, default: _T) -> Union[bytes, _T]: ...
    def __getitem__(self, key: bytes) -> bytes: ...
    def __contains__(self, key: bytes) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def items(self) -> Entries: ...
    def range(self, low: Optional[bytes] = None, high: Optional[bytes] = None, *, reverse: bool = False) -> Entries:
        """Entries with `low <= key < high`."""
    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Entries:
        """Entries whose keys begin with `prefix`."""
    def table(self, table: Table) -> View:
        """A table with a name, at the version of this view of the whole store."""
    def close(self) -> None: ...
    def __enter__(self) -> View: ...
    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool: ...

class Table:
    """The main table of a key-value store, or one of its tables with names: a mapping of bytes to
    bytes. Reads see settled data and wait for no writer. A context manager, which closes it."""

    @property
    def name(self) -> str: ...
    @overload
    def get(self, key: bytes) -> Optional[bytes]: ...
    @overload
    def get(self, key: bytes, default: _T) -> Union[bytes, _T]: ...
    def __getitem__(self, key: bytes) -> bytes: ...
    def __setitem__(self, key: bytes, value: bytes) -> None: ...
    def __delitem__(self, key: bytes) -> None: ...
    def __contains__(self, key: bytes) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def items(self) -> Entries: ...
    def range(self, low: Optional[bytes] = None, high: Optional[bytes] = None, *, reverse: bool = False) -> Entries:
        """Entries with `low <= key < high`, of the newest version."""
    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Entries:
        """Entries whose keys begin with `prefix`, of the newest version."""
    def snapshot(self) -> View:
        """Holds the newest settled version."""
    def table(self, name: str, *, create: bool = True) -> Table:
        """Opens a table with a name."""
    def tables(self) -> list[str]: ...
    def drop_table(self, name: str) -> None:
        """Removes a table with all its keys."""
    def transaction(self) -> Transaction:
        """Begins a transaction over all tables; other writers wait until it ends."""
    def name_version(self, name: str) -> int:
        """Keeps the newest version readable under a name, across restarts."""
    def versions(self) -> list[str]: ...
    def open_version(self, name: str) -> View: ...
    def restore_version(self, name: str) -> None:
        """Brings all tables back to the version of this name."""
    def remove_version(self, name: str) -> None: ...
    def compact(self) -> dict[str, int]:
        """Gives back all space that the tables do not need, while other threads read and write. Views
        and versions with names keep their space. Returns figures: `entries` looked at, leaves
        `replaced` and `written`, bytes `before` and `after`, bytes `trimmed` from the file."""
    def close(self) -> None: ...
    def __enter__(self) -> Table: ...
    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool: ...

class Transaction:
    """Writes that happen together or not at all, also after a crash. As a context manager it
    commits at the end of the block, and gives up if the block raises."""

    def put(self, key: bytes, value: bytes, table: Optional[Table] = None) -> bool:
        """Binds a value to a key; returns whether the key was there."""
    def get(self, key: bytes, table: Optional[Table] = None) -> Optional[bytes]:
        """The value of a key, with the writes of this transaction."""
    def delete(self, key: bytes, table: Optional[Table] = None) -> bool: ...
    def delete_range(
        self, low: Optional[bytes] = None, high: Optional[bytes] = None, table: Optional[Table] = None
    ) -> int:
        """Removes the entries with `low <= key < high`; returns how many there were."""
    def load(self, entries: Iterable[Tuple[bytes, bytes]], table: Optional[Table] = None) -> int:
        """Loads entries in ascending order of their keys into a range in which the table has none, as
        whole leaves; returns how many. An error, also of the iterator, loads nothing, and the
        transaction goes on. The iterator must not use this transaction."""
    def __getitem__(self, key: bytes) -> bytes: ...
    def __setitem__(self, key: bytes, value: bytes) -> None: ...
    def __delitem__(self, key: bytes) -> None: ...
    def savepoint(self) -> int: ...
    def roll_back(self, savepoint: int) -> None:
        """Goes back to a savepoint, which stays; later ones go."""
    def commit(self) -> None:
        """Commits and settles."""
    def abort(self) -> None:
        """Gives up: nothing happened."""
    def __enter__(self) -> Transaction: ...
    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool: ...
