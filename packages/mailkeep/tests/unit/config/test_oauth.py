"""The settings of OAuth sign-in and of the key ring: what contradicts itself is refused at start."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from mailkeep.config import OAuthGrant, check_references, load_settings
from mailkeep.errors import ConfigurationRefused, SecretUnavailable

RING = """
[data_encryption]
active_key_id = "k1"
[[data_encryption.keys]]
key_id = "k1"
material = "file:k1"
"""
PATH = "mail_synchronization.accounts[0]"


def account(oauth: str, *, mechanisms: str = '"OAUTHBEARER", "XOAUTH2"', more: str = "") -> str:
    """An account with an `oauth` block whose lines may replace the usual ones."""
    usual = {
        "grant": '"refresh_token"',
        "token_endpoint": '"https://id.example/token"',
        "client_id": '"c"',
        "scope": '"s"',
        "public_client": "true",
        "refresh_token": '"env:SEED"',
    }
    given = dict(line.split(" = ", 1) for line in oauth.splitlines() if line != "absent")
    lines = [f"{key} = {value}" for key, value in (usual | given).items() if value != "-"]
    return "\n".join(
        [
            "[[mail_synchronization.accounts]]",
            'account_id = "work"\ndisplay_name = "Work"\nhost = "imap.example"\nuser_name = "ann"',
            more,
            "[mail_synchronization.accounts.transport_security]",
            f"permitted_authentication_mechanisms = [{mechanisms}]",
            "[mail_synchronization.accounts.oauth]" if oauth != "absent" else "",
            *(lines if oauth != "absent" else []),
        ]
    )


def write(home: Path, text: str) -> Path:
    (home / "mailkeep.toml").write_text(text, "utf-8")
    return home


def refused(home: Path, text: str) -> tuple[str, ...]:
    """The defects that refuse the settings."""
    with pytest.raises(ConfigurationRefused) as caught:
        load_settings(write(home, text))
    return caught.value.defects


@pytest.mark.spec("SYNC-40", "SYNC-41")
def test_an_account_with_token_mechanisms_only_needs_no_password(tmp_path: Path) -> None:
    """And keeps every value of its block."""
    (found,) = load_settings(write(tmp_path, account(""))).mail_synchronization.accounts
    assert found.secrets.password is None
    assert found.oauth is not None
    assert found.oauth.grant is OAuthGrant.REFRESH_TOKEN
    assert found.oauth.token_endpoint == "https://id.example/token"


@pytest.mark.spec("SYNC-40")
@pytest.mark.parametrize(
    ("lines", "defect"),
    [
        ("token_endpoint = -", "oauth.token_endpoint: is required"),
        ("client_id = -", "oauth.client_id: is required"),
        ("scope = -", "oauth.scope: is required"),
        ("grant = -", "oauth.grant: is required"),
        ('grant = "password"', "oauth.grant: "),
        ('token_endpoint = "http://id.example/token"', "oauth.token_endpoint: should be an absolute https address"),
        ('token_endpoint = "/token"', "oauth.token_endpoint: should be an absolute https address"),
        ('token_endpoint = "https://"', "oauth.token_endpoint: should be an absolute https address"),
        ('token_endpoint = "https://a:b@id.example/"', "oauth.token_endpoint: should be an absolute https address"),
        ('token_endpoint = "https://id.example:x/"', "oauth.token_endpoint: should be an absolute https address"),
        ("public_client = -", "oauth.client_secret: is required unless public_client = true"),
        ('client_secret = "env:S"', "oauth.client_secret: a public client has none"),
        ('client_secret = "hunter2"\npublic_client = false', "oauth.client_secret: should name where"),
        ("refresh_token = -", "oauth.refresh_token: is required while data_encryption has no active key"),
        ('secret = "x"', "oauth.secret: is not a setting"),
        (
            'grant = "client_credentials"\nrefresh_token = -',
            "oauth.public_client: cannot be combined with the grant client_credentials",
        ),
        (
            'grant = "client_credentials"\npublic_client = -\nclient_secret = "env:S"',
            "oauth.refresh_token: is not used by the grant client_credentials",
        ),
    ],
)
def test_a_block_that_cannot_work_is_refused(tmp_path: Path, lines: str, defect: str) -> None:
    """Each by its path, none with a value."""
    defects = refused(tmp_path, account(lines))
    assert any(found.startswith(f"{PATH}.{defect}") for found in defects), defects
    assert "hunter2" not in " ".join(defects)


@pytest.mark.spec("SYNC-40")
def test_a_key_ring_makes_a_seed_unnecessary(tmp_path: Path) -> None:
    """Signing in stores a token, so the settings need not hold one."""
    (found,) = load_settings(write(tmp_path, account("refresh_token = -") + "\n" + RING)).mail_synchronization.accounts
    assert found.oauth is not None
    assert found.oauth.refresh_token is None


@pytest.mark.spec("SYNC-41")
def test_block_and_mechanisms_have_to_fit(tmp_path: Path) -> None:
    """The block without a mechanism for its tokens, a mechanism without the block, a password mechanism without one."""
    mechanisms = f"{PATH}.transport_security.permitted_authentication_mechanisms"
    assert refused(tmp_path, account("", mechanisms='"PLAIN"', more='secrets.password = "env:P"')) == (
        f"{mechanisms}: names neither OAUTHBEARER nor XOAUTH2, which the oauth block is for",
    )
    assert refused(tmp_path, account("absent")) == (f"{mechanisms}: OAUTHBEARER and XOAUTH2 need an oauth block",)
    assert refused(tmp_path, account("", mechanisms='"XOAUTH2", "PLAIN"')) == (f"{PATH}.secrets.password: is required",)


@pytest.mark.spec("SYNC-41")
def test_a_local_account_signs_in_nowhere(tmp_path: Path) -> None:
    """The block is refused beside `kind = "local"`."""
    text = account("").replace('host = "imap.example"\nuser_name = "ann"', 'kind = "local"')
    assert refused(tmp_path, text) == (f"{PATH}.kind: a local account has no host, user_name, password or oauth",)


@pytest.mark.spec("SYNC-48", "OPS-82")
@pytest.mark.parametrize(
    ("old", "new", "defect"),
    [
        ('active_key_id = "k1"', 'active_key_id = "k2"', "data_encryption.active_key_id: names no key of the ring"),
        ('active_key_id = "k1"', "", "data_encryption.active_key_id: is required beside keys"),
        ('key_id = "k1"\nmaterial', 'key_id = "-k"\nmaterial', "data_encryption.keys[0].key_id: should be 1 to 64"),
        ('key_id = "k1"\nmaterial', 'key_id = "' + "k" * 65 + '"\nmaterial', "data_encryption.keys[0].key_id: should"),
        ('key_id = "k1"\nmaterial', 'key_id = "k 1"\nmaterial', "data_encryption.keys[0].key_id: should be 1 to 64"),
        ('material = "file:k1"', 'material = "c2VjcmV0"', "data_encryption.keys[0].material: should name where"),
        (
            'material = "file:k1"\n',
            'material = "file:k1"\n[[data_encryption.keys]]\nkey_id = "k1"\nmaterial = "file:k2"\n',
            "data_encryption.keys[1].key_id: k1 is used twice",
        ),
    ],
)
def test_a_ring_that_contradicts_itself_is_refused(tmp_path: Path, old: str, new: str, defect: str) -> None:
    """Unknown active key, doubled ids, ids of another form, a key written into the settings."""
    assert old in RING
    defects = refused(tmp_path, RING.replace(old, new))
    assert any(found.startswith(defect) for found in defects), defects
    assert "c2VjcmV0" not in " ".join(defects)


@pytest.mark.spec("SYNC-48", "OPS-82")
@pytest.mark.parametrize(
    "material", [base64.b64encode(bytes(31)), base64.b64encode(bytes(33)), b"not base64!", b"YWJj ZGVm", b"\n"]
)
def test_a_key_of_another_length_refuses_startup(tmp_path: Path, material: bytes) -> None:
    """Exactly 32 bytes in base64, or nothing starts."""
    (tmp_path / "k1").write_bytes(material)
    settings = load_settings(write(tmp_path, RING))
    with pytest.raises(SecretUnavailable) as caught:
        check_references(settings, tmp_path)
    assert caught.value.defects[0].startswith("data_encryption.keys[0].material: ")


@pytest.mark.spec("SYNC-3", "SYNC-48")
def test_every_reference_of_the_block_is_tried_at_start(tmp_path: Path) -> None:
    """A secret that is not there is found before the first run; a good key passes."""
    (tmp_path / "k1").write_bytes(base64.b64encode(bytes(32)) + b"\n")
    check_references(load_settings(write(tmp_path, RING)), tmp_path)
    block = 'public_client = false\nclient_secret = "file:none"\nrefresh_token = "file:none either"'
    with pytest.raises(SecretUnavailable) as caught:
        check_references(load_settings(write(tmp_path, account(block))), tmp_path)
    assert [defect.partition(":")[0] for defect in caught.value.defects] == [
        f"{PATH}.oauth.client_secret",
        f"{PATH}.oauth.refresh_token",
    ]
