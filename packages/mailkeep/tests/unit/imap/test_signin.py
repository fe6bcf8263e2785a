"""Choosing how to sign in."""

import pytest
from support.accounts import account_at

from mailkeep.errors import MechanismRefused, TransportPolicyRefused
from mailkeep.imap.signin import LOGIN_COMMAND, check_transport_policy, choose_mechanism


@pytest.mark.spec("SYNC-32")
@pytest.mark.parametrize(
    ("offered", "permitted", "chosen"),
    [
        (["AUTH=PLAIN", "AUTH=LOGIN"], ["PLAIN", "LOGIN"], "PLAIN"),
        (["auth=login"], ["PLAIN", "LOGIN"], "LOGIN"),
        (["AUTH=PLAIN", "AUTH=LOGIN"], ["LOGIN"], "LOGIN"),
        (["AUTH=XOAUTH2"], ["PLAIN"], LOGIN_COMMAND),
        ([], ["LOGIN"], LOGIN_COMMAND),
    ],
)
def test_the_servers_list_is_narrowed_to_the_permitted(offered: list[str], permitted: list[str], chosen: str) -> None:
    """What the account permits decides; the LOGIN command stands in where no mechanism is left."""
    assert choose_mechanism(offered, permitted) == chosen


@pytest.mark.spec("SYNC-41", "SYNC-32")
@pytest.mark.parametrize(
    ("offered", "permitted", "chosen"),
    [
        (["AUTH=XOAUTH2", "AUTH=OAUTHBEARER", "AUTH=PLAIN"], ["PLAIN", "XOAUTH2", "OAUTHBEARER"], "OAUTHBEARER"),
        (["AUTH=XOAUTH2", "AUTH=PLAIN"], ["PLAIN", "XOAUTH2", "OAUTHBEARER"], "XOAUTH2"),
        (["AUTH=XOAUTH2", "AUTH=OAUTHBEARER"], ["XOAUTH2"], "XOAUTH2"),
        (["AUTH=PLAIN"], ["PLAIN", "XOAUTH2"], "PLAIN"),
    ],
)
def test_oauthbearer_is_preferred_and_tokens_go_before_passwords(
    offered: list[str], permitted: list[str], chosen: str
) -> None:
    """The standard mechanism first, then the older one, then what carries a password."""
    assert choose_mechanism(offered, permitted) == chosen


@pytest.mark.spec("SYNC-32")
@pytest.mark.parametrize(
    ("offered", "permitted"),
    [
        (["LOGINDISABLED"], ["PLAIN", "LOGIN"]),
        (["AUTH=PLAIN"], ["XOAUTH2"]),
        (["AUTH=PLAIN", "AUTH=LOGIN"], ["OAUTHBEARER", "XOAUTH2"]),
        (["LOGINDISABLED", "AUTH=PLAIN"], ["LOGIN"]),
    ],
)
def test_nothing_permitted_is_refused_not_widened(offered: list[str], permitted: list[str]) -> None:
    """21001, and no password leaves."""
    with pytest.raises(MechanismRefused):
        choose_mechanism(offered, permitted)


@pytest.mark.case("64")
def test_capabilities_count_in_any_case() -> None:
    """`auth=plain` and `logindisabled` mean what they mean."""
    assert choose_mechanism(["auth=plain", "logindisabled"], ["plain"]) == "PLAIN"
    with pytest.raises(MechanismRefused):
        choose_mechanism(["logindisabled"], ["PLAIN"])


@pytest.mark.spec("SYNC-33")
def test_an_unprotected_connection_needs_both_opt_ins() -> None:
    """11001 also when the check of the configuration was somehow passed by."""
    account = account_at(143)
    check_transport_policy(account)
    for missing in ("allow_insecure_connection", "allow_clear_text_authentication_over_unencrypted_connection"):
        policy = account.transport_security.model_copy(update={missing: False})
        with pytest.raises(TransportPolicyRefused):
            check_transport_policy(account.model_copy(update={"transport_security": policy}))
