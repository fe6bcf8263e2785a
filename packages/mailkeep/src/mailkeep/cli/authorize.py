"""`mailkeep account authorize`: sign in again, after a consent was withdrawn or a key was lost."""

from __future__ import annotations

from typing import Annotated

import typer

from mailkeep.app import probe_account
from mailkeep.cli.configured import configured_account, show_folders
from mailkeep.cli.consent import FlowOption, keep, require_key, sign_in
from mailkeep.cli.exits import run
from mailkeep.cli.terminal import say
from mailkeep.config import OAuthGrant, home, load_settings, resolve_secret
from mailkeep.display import neutralise
from mailkeep.errors import ConfigurationRefused


def authorize(
    account_id: Annotated[str, typer.Argument(metavar="ID", help="The account.")],
    flow: FlowOption = None,
    no_test: Annotated[bool, typer.Option("--no-test", help="Store the sign-in without trying it.")] = False,
) -> None:
    """Sign in to an account by OAuth again; what was stored before is replaced.

    Needed when the consent was withdrawn or ran out, or when the key that sealed it is lost.
    """
    account = configured_account(account_id)
    if account.oauth is None:
        raise ConfigurationRefused(f"{neutralise(account.account_id)} signs in with a password, not by OAuth")
    if account.oauth.grant is not OAuthGrant.REFRESH_TOKEN:
        raise ConfigurationRefused(
            f"{neutralise(account.account_id)} signs in as an application; nobody has to consent"
        )
    require_key(load_settings(home()))
    reference = account.oauth.client_secret
    secret = None if reference is None else resolve_secret(reference, home())
    answer = sign_in(account.oauth, secret, flow=flow, user_name=account.user_name)
    if not no_test:
        show_folders(run(probe_account(account, None, token=answer.access_token)), to_stderr=True)
    assert answer.refresh_token is not None
    run(keep(account.account_id, answer.refresh_token))
    say(f"Signed in to {neutralise(account.account_id)}.")
