"""Account settings that point at a test server."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from mailkeep.config import AccountSettings


def account_at(
    port: int,
    *,
    account_id: str = "anna",
    user_name: str = "anna",
    host: str = "127.0.0.1",
    security: str = "None",
    authority: Path | None = None,
    earliest: date | None = None,
    disposition: str = "RetainTombstone",
    folders: list[dict[str, Any]] | None = None,
    mechanisms: tuple[str, ...] = ("PLAIN", "LOGIN"),
    mode: str = "Polling",
    max_connections: int | None = None,
) -> AccountSettings:
    """An account on a loopback server, by default over a connection without protection, with both opt-ins."""
    return AccountSettings.model_validate(
        {
            "account_id": account_id,
            "display_name": f"Mail of {account_id}",
            "host": host,
            "port": port,
            "user_name": user_name,
            "secrets": {"password": "env:MAILKEEP_TEST_PASSWORD"},
            "earliest_email_received_date": earliest,
            "remotely_deleted_email_disposition": disposition,
            "folders": folders,
            "mode": mode,
            "max_connections": max_connections,
            "transport_security": {
                "connection_security": security,
                "permitted_authentication_mechanisms": mechanisms,
                "allow_insecure_connection": True,
                "allow_clear_text_authentication_over_unencrypted_connection": True,
                "trusted_certificate_authority": authority,
            },
        }
    )
