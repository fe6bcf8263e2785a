"""Sealing refresh tokens for the store."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from pydantic import SecretStr

from mailkeep.config import DataEncryptionSettings
from mailkeep.errors import DataEncryptionKeyMissing, SealedTokenUnreadable
from mailkeep.oauth.model import SealedToken
from mailkeep.oauth.ring import open_refresh_token, seal_refresh_token
from mailkeep.oauth.sealing import seal, unseal
from mailkeep.oauth.tokens import utc_now

KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
TOKEN = SecretStr("1//refresh tokén")


@pytest.mark.spec("SYNC-47", "OPS-83")
def test_a_sealed_value_is_nonce_tag_and_ciphertext_bound_to_its_row() -> None:
    """Read by an independent spelling of AES-GCM: nonce(12), tag(16), ciphertext; purpose, account and key id bound."""
    sealed = seal(TOKEN, subject="work", key_id="k1", key=KEY)
    nonce, tag, ciphertext = sealed[:12], sealed[12:28], sealed[28:]
    cipher = Cipher(algorithms.AES(KEY), modes.GCM(nonce, tag)).decryptor()
    cipher.authenticate_additional_data(b"mailbox-refresh-token\x1fwork\x1fk1")
    assert (cipher.update(ciphertext) + cipher.finalize()).decode() == TOKEN.get_secret_value()
    assert unseal(sealed, subject="work", key_id="k1", key=KEY) == TOKEN


@pytest.mark.spec("SYNC-47")
def test_equal_tokens_are_sealed_differently() -> None:
    """Each value has a nonce of its own."""
    assert seal(TOKEN, subject="a", key_id="k", key=KEY) != seal(TOKEN, subject="a", key_id="k", key=KEY)


@pytest.mark.spec("SYNC-48", "OPS-83")
def test_moved_altered_cut_and_foreign_values_are_one_failure() -> None:
    """Another account, key id, purpose or key, any flipped octet and any cut: all the same sentence."""
    sealed = seal(TOKEN, subject="work", key_id="k1", key=KEY)
    right = {"subject": "work", "key_id": "k1", "key": KEY}
    wrong = [
        right | {"subject": "home"},
        right | {"key_id": "k2"},
        right | {"key": OTHER_KEY},
        right | {"purpose": "x"},
    ]
    attempts = [(sealed, arguments) for arguments in wrong]
    attempts += [(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :], right) for at in range(len(sealed))]
    attempts += [(sealed[:length], right) for length in range(len(sealed))]
    sentences = set()
    for octets, arguments in attempts:
        with pytest.raises(SealedTokenUnreadable) as caught:
            unseal(octets, **arguments)  # type: ignore[arg-type]
        sentences.add(caught.value.message)
    assert len(sentences) == 1


@pytest.mark.spec("SYNC-47")
def test_the_separator_may_not_stand_inside_a_part() -> None:
    """Or two different rows could be bound alike."""
    with pytest.raises(ValueError, match="separator"):
        seal(TOKEN, subject="a\x1fb", key_id="k", key=KEY)


@pytest.mark.spec("SYNC-48", "OPS-84")
def test_the_active_key_seals_any_key_opens_and_a_missing_one_is_named(tmp_path: Path) -> None:
    """A ring can move on while older values still open; without the key the failure says which one is missing."""
    for name, key in (("old", KEY), ("new", OTHER_KEY)):
        (tmp_path / name).write_bytes(base64.b64encode(key))
    keys = [{"key_id": name, "material": f"file:{name}"} for name in ("old", "new")]
    ring = DataEncryptionSettings.model_validate({"active_key_id": "old", "keys": keys})
    moved_on = DataEncryptionSettings.model_validate({"active_key_id": "new", "keys": keys})
    octets, key_id = seal_refresh_token(ring, tmp_path, account_id="work", token=TOKEN)
    sealed = SealedToken(octets, key_id, utc_now())
    assert key_id == "old"
    assert open_refresh_token(moved_on, tmp_path, account_id="work", sealed=sealed) == TOKEN
    assert seal_refresh_token(moved_on, tmp_path, account_id="work", token=TOKEN)[1] == "new"
    shrunk = DataEncryptionSettings.model_validate({"active_key_id": "new", "keys": keys[1:]})
    with pytest.raises(DataEncryptionKeyMissing, match="old"):
        open_refresh_token(shrunk, tmp_path, account_id="work", sealed=sealed)
    with pytest.raises(DataEncryptionKeyMissing, match="mailkeep keys create"):
        seal_refresh_token(DataEncryptionSettings(), tmp_path, account_id="work", token=TOKEN)
