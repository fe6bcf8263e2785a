"""OAuth: access tokens for mail servers, refresh tokens sealed in the store, and the sign-in of a person.

`AccessTokens` hands out tokens while mailkeep runs; the `authorize_…` functions get a person's consent once, and
`keep_consent` stores what it brought. No function here logs, returns in an error or stores in the clear any token.
"""

from mailkeep.oauth.authorize import (
    Flow,
    authorize_in_browser,
    authorize_on_another_device,
    begin_pasting,
    finish_pasting,
)
from mailkeep.oauth.keep import forget_consent, keep_consent, tokens_by_key
from mailkeep.oauth.model import DeviceCode, TokenAnswer
from mailkeep.oauth.tokens import AccessTokens

__all__ = [
    "AccessTokens",
    "DeviceCode",
    "Flow",
    "TokenAnswer",
    "authorize_in_browser",
    "authorize_on_another_device",
    "begin_pasting",
    "finish_pasting",
    "forget_consent",
    "keep_consent",
    "tokens_by_key",
]
