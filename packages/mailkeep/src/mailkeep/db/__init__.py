"""PostgreSQL: the server (embedded or external), a pool, the schema and its gate, keys, named SQL.

`async with Database.open(settings, home) as db: async with db.connection() as connection: ...`
`upgrade` and `status` serve the operator's commands; `uuid7` mints keys; `load_queries` reads a capability's SQL.
"""

from mailkeep.db.console import SqlResult, psql_environment, read_only
from mailkeep.db.database import Connection, Database, is_lost_race, is_server_trouble, status, upgrade
from mailkeep.db.ids import uuid7, uuid7s
from mailkeep.db.queries import load_queries
from mailkeep.db.schema import SchemaStatus

__all__ = [
    "Connection",
    "Database",
    "SchemaStatus",
    "SqlResult",
    "is_lost_race",
    "is_server_trouble",
    "load_queries",
    "psql_environment",
    "read_only",
    "status",
    "upgrade",
    "uuid7",
    "uuid7s",
]
