"""What authorization servers answer, as frozen values. Tokens are SecretStr, so that no repr or log shows one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """An answer of the token endpoint (RFC 6749 §5.1). `refresh_token` is None when the one presented stays valid."""

    access_token: SecretStr
    lifetime: timedelta
    refresh_token: SecretStr | None


@dataclass(frozen=True, slots=True)
class SealedToken:
    """A row of mailbox_refresh_tokens."""

    octets: bytes
    key_id: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class RefreshToken:
    """A refresh token and since when it holds; None for the seed of the settings, which anything stored outranks."""

    value: SecretStr
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """A device flow that has begun (RFC 8628 §3.2). `lifetime` and `interval` are how long and how often to ask."""

    device_code: SecretStr
    user_code: str
    verification_address: str
    lifetime: timedelta
    interval: timedelta
