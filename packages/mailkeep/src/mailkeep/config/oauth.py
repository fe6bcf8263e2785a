"""Signing in by OAuth, and the keys under which rotated refresh tokens are sealed (SYNC-40, SYNC-41, SYNC-48)."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from mailkeep.config.values import SecretReference, Section, refuse

KEY_BYTES = 32
MAX_KEY_ID_CHARACTERS = 64
_KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class OAuthGrant(StrEnum):
    """How access tokens are asked for (RFC 6749 §6 and §4.4)."""

    REFRESH_TOKEN = "refresh_token"  # noqa: S105
    CLIENT_CREDENTIALS = "client_credentials"


def _https_endpoint(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or "@" in parts.netloc or parts.fragment or not (text.isprintable() and text.isascii()):
        raise PydanticCustomError("endpoint", "should be an absolute https address without user name and fragment")
    return text


def _key_id(text: str) -> str:
    if not _KEY_ID.fullmatch(text):
        raise PydanticCustomError(
            "key_id", "should be 1 to 64 of letters, digits, dot, hyphen and underscore, a letter or digit first"
        )
    return text


HttpsEndpoint = Annotated[str, Field(max_length=2048), AfterValidator(_https_endpoint)]
KeyId = Annotated[str, AfterValidator(_key_id)]


class OAuthSettings(Section):
    """How an account gets the access tokens it signs in with, in the place of a password."""

    grant: OAuthGrant = Field(
        description="`refresh_token` for a person's consent, `client_credentials` for an application of its own."
    )
    token_endpoint: HttpsEndpoint = Field(description="Where tokens are asked for; https only.")
    client_id: str = Field(min_length=1, max_length=512, description="Id of your own application registration.")
    scope: str = Field(min_length=1, max_length=2048, description="Scopes, separated by spaces.")
    public_client: bool = Field(
        default=False, description="true for an application that has no secret; then none is ever sent."
    )
    client_secret: SecretReference | None = Field(
        default=None, repr=False, description="Where the application's secret is kept; required unless public."
    )
    refresh_token: SecretReference | None = Field(
        default=None,
        repr=False,
        description="Where a first refresh token is kept. Required by the grant `refresh_token` unless "
        "`data_encryption` names an active key, since signing in then stores one; a stored token always wins.",
    )
    authorization_endpoint: HttpsEndpoint | None = Field(
        default=None, description="Where a person consents in a browser; used by `mailkeep account authorize` only."
    )
    device_authorization_endpoint: HttpsEndpoint | None = Field(
        default=None, description="Where the device flow begins; used by `mailkeep account authorize` only."
    )
    trusted_certificate_authority: Path | None = Field(
        default=None, description="PEM file of a private authority trusted for these addresses beside the system's."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        defects: list[tuple[str, str]] = []
        if self.public_client and self.client_secret is not None:
            defects.append(("client_secret", "a public client has none"))
        if not self.public_client and self.client_secret is None:
            defects.append(("client_secret", "is required unless public_client = true"))
        if self.grant is OAuthGrant.CLIENT_CREDENTIALS:
            if self.public_client:
                defects.append(("public_client", "cannot be combined with the grant client_credentials"))
            if self.refresh_token is not None:
                defects.append(("refresh_token", "is not used by the grant client_credentials"))
        refuse(defects)
        return self

    @property
    def needs_refresh_token(self) -> bool:
        """Whether a refresh token has to come from somewhere and the settings name none."""
        return self.grant is OAuthGrant.REFRESH_TOKEN and self.refresh_token is None


class DataEncryptionKeySettings(Section):
    """One key of the ring."""

    key_id: KeyId = Field(description="The key's id, stored beside everything it seals.")
    material: SecretReference = Field(
        repr=False, description="Where the key is kept: base64 of exactly 32 bytes. Without it, what it sealed is lost."
    )


class DataEncryptionSettings(Section):
    """The key ring. Any key of it opens, the active one seals."""

    active_key_id: KeyId | None = Field(default=None, description="Id of the key that seals from now on.")
    keys: tuple[DataEncryptionKeySettings, ...] = Field(
        default=(), description="The keys; keep old ones while anything is sealed under them."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        defects: list[tuple[str, str]] = []
        ids: set[str] = set()
        for position, key in enumerate(self.keys):
            if key.key_id in ids:
                defects.append((f"keys[{position}].key_id", f"{key.key_id} is used twice"))
            ids.add(key.key_id)
        if self.active_key_id is not None and self.active_key_id not in ids:
            defects.append(("active_key_id", "names no key of the ring"))
        if self.keys and self.active_key_id is None:
            defects.append(("active_key_id", "is required beside keys"))
        refuse(defects)
        return self
