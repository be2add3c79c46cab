"""The tables of the registry's file, and how each older version becomes the next."""

from __future__ import annotations

from loopctl.adapters.registry_rows import ADDED_2, COLUMNS, NUMBERS
from loopctl.model.sessions import CLOSED_STATUS

APPLICATION_ID = 0x6C6F6F70  # "loop"
SCHEMA_VERSION = 2

_LEDGER = (
    "CREATE TABLE deliveries (session TEXT NOT NULL, id TEXT NOT NULL, status TEXT NOT NULL, attempts INTEGER NOT NULL,"
    " detail TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (session, id)) STRICT",
    "CREATE TABLE cursors (session TEXT PRIMARY KEY NOT NULL, cursor TEXT NOT NULL) STRICT",
    "CREATE TABLE posted (session TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, url TEXT NOT NULL,"
    " at TEXT NOT NULL, PRIMARY KEY (session, key)) STRICT",
    "CREATE TABLE armed (ref_key TEXT PRIMARY KEY NOT NULL, at TEXT NOT NULL) STRICT",
)

_COLUMNS = ", ".join(
    f"{c} {'INTEGER' if c in NUMBERS else 'TEXT'}{' PRIMARY KEY NOT NULL' if c == 'id' else ''}" for c in COLUMNS
)

SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE sessions ({_COLUMNS}) STRICT;
CREATE UNIQUE INDEX one_open_session ON sessions (machine, ref_key) WHERE status != '{CLOSED_STATUS}';
{";".join(_LEDGER)};
"""

#: By version, the statements that make the next one of it.
UPGRADES = {1: (*(f"ALTER TABLE sessions ADD COLUMN {name} TEXT" for name in ADDED_2), *_LEDGER)}
