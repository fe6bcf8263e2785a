"""One account: which server, how it is reached, which folders (spec SYNC sections 1 and 3).

Deliberately absent until the capabilities exist: delivery, rules (`rule_actions`), contact collection.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from mailkeep.config.oauth import OAuthSettings
from mailkeep.config.values import Duration, SecretReference, Section, printable, refuse

TRANSPORT_POLICY = "11001"


class AccountKind(StrEnum):
    """Where an account's mail comes from: a server, or imports only."""

    IMAP = "imap"
    LOCAL = "local"


class ConnectionSecurity(StrEnum):
    """How a connection is protected (SYNC-33). The modes that fall back silently are not offered."""

    TLS_ON_CONNECT = "TlsOnConnect"
    STARTTLS_REQUIRED = "StartTlsRequired"
    NONE = "None"


class AuthenticationMechanism(StrEnum):
    """The mechanisms an account may permit (SYNC-32)."""

    PLAIN = "PLAIN"
    LOGIN = "LOGIN"
    XOAUTH2 = "XOAUTH2"
    OAUTHBEARER = "OAUTHBEARER"

    @property
    def takes_token(self) -> bool:
        """Whether the mechanism carries an access token and not a password."""
        return self in (AuthenticationMechanism.XOAUTH2, AuthenticationMechanism.OAUTHBEARER)


class ExpungedEmailDisposition(StrEnum):
    """What happens to a stored email that has gone from the server (SYNC-79)."""

    RETAIN_TOMBSTONE = "RetainTombstone"
    ERASE_LOCAL_COPY = "EraseLocalCopy"


class AuthoredDeleteDisposition(StrEnum):
    """What becomes of the local copy of a message that its owner deleted, or moved out of the mirror, through us
    (spec MUT section 9)."""

    RETAIN_LOCAL_COPY = "RetainLocalCopy"
    RETAIN_TOMBSTONE = "RetainTombstone"
    ERASE_LOCAL_COPY = "EraseLocalCopy"


class SynchronizationMode(StrEnum):
    """How the next run is brought about."""

    POLLING = "Polling"
    PUSH = "Push"


class SpecialUse(StrEnum):
    """A folder's role (SYNC-12)."""

    INBOX = "Inbox"
    ARCHIVE = "Archive"
    DRAFTS = "Drafts"
    SENT = "Sent"
    JUNK = "Junk"
    TRASH = "Trash"
    ALL = "All"
    FLAGGED = "Flagged"
    IMPORTANT = "Important"
    OUTBOX = "Outbox"


def _alias(text: str) -> str:
    alias = text.strip().upper()
    if not printable(alias) or len(alias) > 128:
        raise PydanticCustomError("alias", "should be 1 to 128 printable characters")
    return alias


def _name(text: str) -> str:
    name = text.strip()
    if not printable(name):
        raise PydanticCustomError("name", "should be printable and not blank")
    return name


def _not_future(day: date) -> date:
    if day > datetime.now(UTC).date():
        raise PydanticCustomError("future", "should not lie in the future")
    return day


Name = Annotated[str, Field(max_length=128), AfterValidator(_name)]


class TransportSecuritySettings(Section):
    """How the connection to a server is protected."""

    connection_security: ConnectionSecurity = Field(
        default=ConnectionSecurity.TLS_ON_CONNECT,
        description="`TlsOnConnect`, `StartTlsRequired`, or `None` for a clear-text connection.",
    )
    permitted_authentication_mechanisms: tuple[AuthenticationMechanism, ...] = Field(
        default=(AuthenticationMechanism.PLAIN, AuthenticationMechanism.LOGIN),
        min_length=1,
        description="SASL mechanisms that may be used; the server's own list is narrowed to these. "
        "`OAUTHBEARER` and `XOAUTH2` need the account's `oauth` block.",
    )
    allow_insecure_connection: bool = Field(
        default=False, description='Opt-in without which `connection_security = "None"` is refused.'
    )
    allow_clear_text_authentication_over_unencrypted_connection: bool = Field(
        default=False,
        description="Second opt-in, for sending the password or the access token over an unprotected connection.",
    )
    trusted_certificate_authority: Path | None = Field(
        default=None,
        description="PEM file of a private certificate authority, trusted beside the system's. "
        "Validation itself cannot be switched off.",
    )

    @model_validator(mode="after")
    def _policy(self) -> Self:
        defects: list[tuple[str, str]] = []
        if self.connection_security is ConnectionSecurity.NONE:
            if not self.allow_insecure_connection:
                defects.append(("connection_security", f"{TRANSPORT_POLICY} needs allow_insecure_connection = true"))
            if not self.allow_clear_text_authentication_over_unencrypted_connection:
                defects.append(
                    (
                        "permitted_authentication_mechanisms",
                        f"{TRANSPORT_POLICY} a clear-text password over an unprotected connection needs "
                        "allow_clear_text_authentication_over_unencrypted_connection = true",
                    )
                )
        refuse(defects)
        return self


class AccountSecrets(Section):
    """References to an account's secrets."""

    password: SecretReference | None = Field(
        default=None, description="Where the password is kept: `file:…`, `env:…` or `keyring:service/name`.", repr=False
    )


class FolderMapping(Section):
    """A remote folder under the operator's own name (SYNC-12, SYNC-23)."""

    alias: Annotated[str, AfterValidator(_alias)] = Field(description="The folder's name here; upper-cased.")
    remote_path: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="The folder's full path on the server, exactly as listed.",
    )
    special_use: SpecialUse | None = Field(
        default=None, description="The folder's role; without a path it selects the folder that advertises it."
    )
    synchronize: bool = Field(
        default=True, description="false keeps what is stored, unread by anyone, and fetches nothing."
    )
    create_if_missing: bool = Field(
        default=False,
        description="Whether a change that moves or copies mail here may create the folder; needs `remote_path`.",
    )
    generate_embeddings: bool = Field(default=True, description="Whether passages of this folder get vectors.")
    visible_to_tools: bool = Field(default=True, description="Whether tools may read this folder.")

    @model_validator(mode="before")
    @classmethod
    def _follow_synchronize(cls, data: Any) -> Any:
        """The two dependent switches default to what `synchronize` says, so only asking for them contradicts it."""
        if isinstance(data, dict) and data.get("synchronize") is False:
            return {"generate_embeddings": False, "visible_to_tools": False, **data}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        defects: list[tuple[str, str]] = []
        if self.remote_path is None and self.special_use is None:
            defects.append(("", "needs remote_path or special_use"))
        if self.special_use is SpecialUse.OUTBOX and self.remote_path is None:
            defects.append(("special_use", "Outbox needs remote_path"))
        if self.create_if_missing and self.remote_path is None:
            defects.append(("create_if_missing", "needs remote_path: a role alone names no folder to create"))
        if not self.synchronize:
            for key, asked in (
                ("generate_embeddings", self.generate_embeddings),
                ("visible_to_tools", self.visible_to_tools),
            ):
                if asked:
                    defects.append((key, "cannot be asked for while synchronize = false"))
        refuse(defects)
        return self


class ToolChangeSettings(Section):
    """What tools may change in an account's mailbox; people at the command line need no permission (MUT-58, MUT-B7)."""

    flags: bool = Field(default=False, description="Mark as read or starred, and change keywords.")
    moves: bool = Field(default=False, description="Move to another folder, archive, and move to the trash.")
    copies: bool = Field(default=False, description="Copy to another folder.")
    deletions: bool = Field(
        default=False, description="Delete for good; needs `mcp_endpoint.deleting_enabled` as well."
    )


class AuditTrailSettings(Section):
    """A record of how each change of the mailbox ended, without any mail content."""

    enabled: bool = Field(default=False, description="Whether changes recorded from now on leave an entry.")
    retention: Duration = Field(
        default=timedelta(days=90),
        ge=timedelta(days=1),
        le=timedelta(days=3650),
        description="How long entries are kept.",
    )


class AccountSettings(Section):
    """One mailbox that is mirrored, or filled by imports."""

    account_id: Name = Field(description="The account's id: printable, stable, unique without regard to case.")
    display_name: Name = Field(description="The account's name for people; shares one namespace with the ids.")
    kind: AccountKind = Field(
        default=AccountKind.IMAP,
        description="`imap` is mirrored from a server; `local` is filled by `mailkeep import` only.",
    )
    host: str | None = Field(
        default=None, min_length=1, max_length=253, description="The IMAP server's host name or address."
    )
    port: int = Field(default=993, ge=1, le=65535, description="The IMAP server's port.")
    user_name: str | None = Field(
        default=None, min_length=1, max_length=320, description="The name to log in with.", repr=False
    )
    mode: SynchronizationMode = Field(
        default=SynchronizationMode.POLLING,
        description="`Polling` every interval, or `Push`: the server tells of changes (NOTIFY or IDLE), and the "
        "interval is the longest wait.",
    )
    max_connections: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="Connections this account may hold at its server at once, all workers together. "
        "Left out, what its provider allows, else 10.",
    )
    earliest_email_received_date: Annotated[date, AfterValidator(_not_future)] | None = Field(
        default=None, description="Mail that arrived before this day (UTC) is not mirrored."
    )
    remotely_deleted_email_disposition: ExpungedEmailDisposition = Field(
        default=ExpungedEmailDisposition.RETAIN_TOMBSTONE,
        description="What happens here to mail deleted on the server: `RetainTombstone` hides it, "
        "`EraseLocalCopy` erases it.",
    )
    authored_delete_email_disposition: AuthoredDeleteDisposition = Field(
        default=AuthoredDeleteDisposition.RETAIN_LOCAL_COPY,
        description="What happens here to mail deleted through mailkeep, or moved to a folder that is not mirrored: "
        "`RetainLocalCopy` keeps it readable, `RetainTombstone` hides it, `EraseLocalCopy` erases it. "
        "Governs changes recorded from then on.",
    )
    tool_changes: ToolChangeSettings = Field(
        default=ToolChangeSettings(), description="What tools may change in this mailbox; nothing unless said here."
    )
    audit_trail: AuditTrailSettings = Field(
        default=AuditTrailSettings(), description="The record of changes of this mailbox."
    )
    folders: tuple[FolderMapping, ...] | None = Field(
        default=None, description="The folders to mirror. Left out, every folder of the account is mirrored."
    )
    secrets: AccountSecrets = Field(
        default=AccountSecrets(password=None), description="References to the account's secrets."
    )
    oauth: OAuthSettings | None = Field(
        default=None, description="How access tokens are got, for the mechanisms `OAUTHBEARER` and `XOAUTH2`."
    )
    transport_security: TransportSecuritySettings = Field(
        default=TransportSecuritySettings(), description="How the connection is protected."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        defects: list[tuple[str, str]] = []
        if self.kind is AccountKind.IMAP:
            if self.host is None:
                defects.append(("host", "is required"))
            if self.user_name is None:
                defects.append(("user_name", "is required"))
            defects.extend(self._credential_defects())
        elif any(value is not None for value in (self.host, self.user_name, self.secrets.password, self.oauth)):
            defects.append(("kind", "a local account has no host, user_name, password or oauth"))
        defects.extend(_mapping_clashes(self.folders or ()))
        refuse(defects)
        return self

    def _credential_defects(self) -> list[tuple[str, str]]:
        """Each permitted mechanism needs what it carries, and what is given needs a mechanism (SYNC-41)."""
        mechanisms = self.transport_security.permitted_authentication_mechanisms
        by_token = any(mechanism.takes_token for mechanism in mechanisms)
        by_password = not all(mechanism.takes_token for mechanism in mechanisms)
        defects = []
        if by_password and self.secrets.password is None:
            defects.append(("secrets.password", "is required"))
        permitted = "transport_security.permitted_authentication_mechanisms"
        if self.oauth is not None and not by_token:
            defects.append((permitted, "names neither OAUTHBEARER nor XOAUTH2, which the oauth block is for"))
        if self.oauth is None and by_token:
            defects.append((permitted, "OAUTHBEARER and XOAUTH2 need an oauth block"))
        return defects


def _mapping_clashes(folders: tuple[FolderMapping, ...]) -> list[tuple[str, str]]:
    """Aliases used twice, and roles given to two folders, naming both aliases (SYNC-12, SYNC-13)."""
    defects: list[tuple[str, str]] = []
    aliases: set[str] = set()
    roles: dict[SpecialUse, str] = {}
    for position, mapping in enumerate(folders):
        if mapping.alias in aliases:
            defects.append((f"folders[{position}].alias", f"{mapping.alias} is used twice"))
        aliases.add(mapping.alias)
        if mapping.special_use is None:
            continue
        if mapping.special_use in roles:
            first = roles[mapping.special_use]
            defects.append(
                (
                    f"folders[{position}].special_use",
                    f"{mapping.special_use} is the role of {first} and of {mapping.alias}",
                )
            )
        roles.setdefault(mapping.special_use, mapping.alias)
    return defects
