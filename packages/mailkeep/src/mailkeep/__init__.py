"""mailkeep: mirrors IMAP mailboxes into your own PostgreSQL and makes every message findable.

Capabilities are sub-packages; imports go one way (see docs/guide/architecture.md):
cli, http, mcp -> sync, search, transfer -> mailbox, threads, terms -> imap, db -> config, errors.
"""
