"""Reading the settings: strict, all defects at once, never a value."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from mailkeep.config import ConnectionSecurity, SpecialUse, load_settings, posture_warnings
from mailkeep.errors import ConfigurationRefused, EnvironmentOnlySetting, TransportPolicyRefused

ACCOUNT = """
[[mail_synchronization.accounts]]
account_id = "work"
display_name = "Work mail"
host = "imap.example.com"
user_name = "ann"
secrets.password = "env:WORK_PASSWORD"
"""


def write(home: Path, text: str) -> Path:
    """Put the settings where they belong."""
    (home / "mailkeep.toml").write_text(text, "utf-8")
    return home


def refused(home: Path, text: str) -> tuple[str, ...]:
    """The defects that refuse the settings."""
    with pytest.raises((ConfigurationRefused, TransportPolicyRefused)) as caught:
        load_settings(write(home, text))
    return caught.value.defects


def test_a_missing_file_means_the_defaults(tmp_path: Path) -> None:
    """Nothing configured is a valid configuration with synchronization off."""
    settings = load_settings(tmp_path)
    assert settings.mail_synchronization.enabled is False
    assert settings.mail_synchronization.interval == timedelta(minutes=5)
    assert settings.persistence.dsn is None
    assert (settings.http.host, settings.http.port) == ("127.0.0.1", 8025)


def test_an_account_without_folders_mirrors_everything(tmp_path: Path) -> None:
    """Absent folders stay absent instead of becoming a list."""
    (account,) = load_settings(write(tmp_path, ACCOUNT)).mail_synchronization.accounts
    assert account.folders is None
    assert account.port == 993
    assert account.transport_security.connection_security is ConnectionSecurity.TLS_ON_CONNECT


@pytest.mark.spec("SYNC-1", "OPS-4")
def test_unknown_keys_and_sections_are_refused_with_their_paths(tmp_path: Path) -> None:
    """A dropped key would silently restore a default that the operator had excluded."""
    defects = refused(tmp_path, ACCOUNT + "hots = 1\n[mail_synchronisation]\nenabled = true\n[http]\nprot = 1\n")
    assert defects == (
        "http.prot: is not a setting",
        "mail_synchronisation: is not a setting",
        "mail_synchronization.accounts[0].hots: is not a setting",
    )


@pytest.mark.spec("SYNC-1")
@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("interval = 300", "interval"),
        ('interval = "5 parsecs"', "interval"),
        ('interval = "9s"', "interval"),
        ('interval = "25h"', "interval"),
        ("max_concurrent_accounts = 0", "max_concurrent_accounts"),
        ("max_concurrent_accounts = 101", "max_concurrent_accounts"),
        ('max_concurrent_accounts = "many"', "max_concurrent_accounts"),
        ("max_raw_mime_bytes = 1023", "max_raw_mime_bytes"),
        ("max_raw_mime_bytes = 104857601", "max_raw_mime_bytes"),
        ("max_extracted_text_characters = 200001", "max_extracted_text_characters"),
        ("max_reconciled_emails_per_run = 10001", "max_reconciled_emails_per_run"),
        ('shutdown_drain_timeout = "121s"', "shutdown_drain_timeout"),
    ],
)
def test_values_out_of_bounds_or_of_another_kind_are_refused(tmp_path: Path, line: str, path: str) -> None:
    """Each bound of the settings table refuses start-up by the setting's path."""
    (defect,) = refused(tmp_path, f"[mail_synchronization]\n{line}\n")
    assert defect.startswith(f"mail_synchronization.{path}: ")


@pytest.mark.spec("SYNC-1")
@pytest.mark.parametrize("value", ["1", '"1"', '"SSL"', '"tlsonconnect"'])
def test_an_enumeration_takes_its_own_names_only(tmp_path: Path, value: str) -> None:
    """Numbers and unknown names of a closed set are refused."""
    (defect,) = refused(tmp_path, ACCOUNT + f"transport_security.connection_security = {value}\n")
    assert defect.startswith("mail_synchronization.accounts[0].transport_security.connection_security: ")


@pytest.mark.spec("OPS-5")
def test_all_defects_are_reported_together_without_a_value(tmp_path: Path) -> None:
    """Five defects in three sections make one report of five paths, and no value appears in it."""
    text = """
    [mail_synchronization]
    interval = "sentinel-one"
    max_concurrent_accounts = 987654
    [persistence]
    command_timeout_seconds = 987654
    sentinel_key = "sentinel-two"
    [http]
    host = "sentinel-three"
    """
    with pytest.raises(ConfigurationRefused) as caught:
        load_settings(write(tmp_path, text))
    assert [defect.partition(":")[0] for defect in caught.value.defects] == [
        "http.host",
        "mail_synchronization.interval",
        "mail_synchronization.max_concurrent_accounts",
        "persistence.command_timeout_seconds",
        "persistence.sentinel_key",
    ]
    for value in ("sentinel-one", "987654", "sentinel-two", "sentinel-three"):
        assert value not in str(caught.value)


def test_a_file_that_is_not_toml_is_refused_with_its_position_only(tmp_path: Path) -> None:
    """A broken file is refused in one sentence that quotes nothing of it."""
    with pytest.raises(ConfigurationRefused) as caught:
        load_settings(write(tmp_path, '[http]\nport = "sentinel\n'))
    assert "line 2" in str(caught.value)
    assert "sentinel" not in str(caught.value)


def test_a_file_nested_without_end_is_refused(tmp_path: Path) -> None:
    """Thousands of brackets are a defect of the file, told with its name."""
    with pytest.raises(ConfigurationRefused, match="nested too deeply"):
        load_settings(write(tmp_path, "a = " + "[" * 50_000))


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """Octets that are no UTF-8 are a defect, not a crash."""
    (tmp_path / "mailkeep.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationRefused, match="UTF-8"):
        load_settings(tmp_path)


@pytest.mark.spec("OPS-2")
def test_the_environment_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One injected variable overrides what the file says and leaves its neighbours alone."""
    monkeypatch.setenv("MAILKEEP_MAIL_SYNCHRONIZATION__INTERVAL", "7m")
    home = write(tmp_path, '[mail_synchronization]\ninterval = "6m"\nmax_concurrent_accounts = 9\n' + ACCOUNT)
    section = load_settings(home).mail_synchronization
    assert (section.interval, section.max_concurrent_accounts) == (timedelta(minutes=7), 9)
    assert len(section.accounts) == 1


@pytest.mark.spec("SYNC-1", "OPS-4")
def test_a_variable_that_names_no_setting_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt variable is refused as a misspelt key is, in its section or its key."""
    monkeypatch.setenv("MAILKEEP_HTPP__PORT", "1")
    monkeypatch.setenv("MAILKEEP_HTTP__PROT", "1")
    assert refused(tmp_path, "") == (
        "MAILKEEP_HTPP__PORT: is not a section (environment variable)",
        "http.prot: is not a setting",
    )


@pytest.mark.spec("OPS-6")
def test_what_only_the_environment_may_say_is_refused_in_the_file(tmp_path: Path) -> None:
    """Their readers run before the file is read, so the values would be ignored silently."""
    with pytest.raises(EnvironmentOnlySetting) as caught:
        load_settings(write(tmp_path, 'OTEL_SERVICE_NAME = "a"\n[http]\nopenssl_conf = "b"\n'))
    assert caught.value.defects == ("OTEL_SERVICE_NAME", "http.openssl_conf")


@pytest.mark.spec("OPS-12")
@pytest.mark.parametrize(
    ("text", "defect"),
    [
        ("[mail_synchronization]\nenabled = true\n", "mail_synchronization.enabled: true needs at least one account"),
        (
            '[mail_synchronization]\ninterval = "40m"\n',
            "mail_synchronization.max_failure_backoff: is below interval",
        ),
        (
            "[mail_synchronization]\nmax_in_flight_raw_mime_bytes = 2048\n",
            "mail_synchronization.max_in_flight_raw_mime_bytes: is below max_raw_mime_bytes",
        ),
        (
            "[mail_synchronization]\nmax_content_bytes_per_run = 2048\n",
            "mail_synchronization.max_content_bytes_per_run: is below max_raw_mime_bytes",
        ),
        (
            "[mail_synchronization]\nmax_stored_content_bytes = 2048\n",
            "mail_synchronization.max_stored_content_bytes: is below max_raw_mime_bytes",
        ),
        (
            "[email_content]\nmax_body_characters = 150000\n",
            "email_content.max_characters_per_read: is below twice max_body_characters",
        ),
        ('[persistence]\npassword = "env:X"\n', "persistence.password: means nothing without dsn"),
        (
            '[persistence]\ndsn = "postgresql://u:secret@h/d"\npassword = "env:X"\n',
            "persistence.password: is given here and inside dsn",
        ),
    ],
)
def test_contradictions_between_settings_are_refused(tmp_path: Path, text: str, defect: str) -> None:
    """Each rule that spans two settings refuses start-up by the path of the one to change."""
    assert refused(tmp_path, text) == (defect,)


@pytest.mark.spec("SYNC-4", "OPS-12")
def test_ids_and_names_share_one_namespace(tmp_path: Path) -> None:
    """An account may not be called as another one, whatever the case."""
    second = ACCOUNT.replace('"work"', '"other"').replace('"Work mail"', '"WORK"')
    (defect,) = refused(tmp_path, ACCOUNT + second)
    assert defect == "mail_synchronization.accounts[1].display_name: is already a name of accounts[0]"


@pytest.mark.spec("SYNC-3")
def test_a_first_day_in_the_future_is_refused_while_synchronization_is_off(tmp_path: Path) -> None:
    """The day is compared in UTC; today is accepted."""
    today = datetime.now(UTC).date()
    (defect,) = refused(tmp_path, ACCOUNT + f"earliest_email_received_date = {today + timedelta(days=2)}\n")
    assert defect.startswith("mail_synchronization.accounts[0].earliest_email_received_date: ")
    settings = load_settings(write(tmp_path, ACCOUNT + "earliest_email_received_date = 2024-02-29\n"))
    assert settings.mail_synchronization.accounts[0].earliest_email_received_date == date(2024, 2, 29)


@pytest.mark.spec("SYNC-33", "OPS-12")
def test_an_unprotected_connection_needs_both_opt_ins(tmp_path: Path) -> None:
    """Without them the refusal is the transport policy's own; with them the account loads and is warned about."""
    with pytest.raises(TransportPolicyRefused) as caught:
        load_settings(write(tmp_path, ACCOUNT + 'transport_security.connection_security = "None"\n'))
    assert len(caught.value.defects) == 2
    opted_in = (
        'transport_security.connection_security = "None"\n'
        "transport_security.allow_insecure_connection = true\n"
        "transport_security.allow_clear_text_authentication_over_unencrypted_connection = true\n"
    )
    settings = load_settings(write(tmp_path, ACCOUNT + opted_in))
    assert posture_warnings(settings) == ["mail_synchronization.accounts[0]: the connection may be unprotected"]


@pytest.mark.spec("SYNC-12", "SYNC-13", "SYNC-16", "SYNC-23", "OPS-12")
def test_folder_mappings_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    """One role on two folders, an alias used twice, no target, Outbox without a path, visibility of what is off."""
    folders = """
    [[mail_synchronization.accounts.folders]]
    alias = "one"
    [[mail_synchronization.accounts.folders]]
    alias = "out"
    special_use = "Outbox"
    [[mail_synchronization.accounts.folders]]
    alias = "off"
    remote_path = "Off"
    synchronize = false
    visible_to_tools = true
    """
    assert [defect.partition(": ")[2] for defect in refused(tmp_path, ACCOUNT + folders)] == [
        "needs remote_path or special_use",
        "Outbox needs remote_path",
        "cannot be asked for while synchronize = false",
    ]
    clashing = """
    [[mail_synchronization.accounts.folders]]
    alias = "post"
    special_use = "Sent"
    [[mail_synchronization.accounts.folders]]
    alias = " Post "
    remote_path = "Elsewhere"
    special_use = "Sent"
    """
    assert [defect.partition(": ")[2] for defect in refused(tmp_path, ACCOUNT + clashing)] == [
        "POST is used twice",
        "Sent is the role of POST and of POST",
    ]


@pytest.mark.spec("SYNC-12", "SYNC-23")
def test_a_mapping_is_folded_and_its_switches_follow_synchronize(tmp_path: Path) -> None:
    """The alias is trimmed and upper-cased; a folder that is switched off is neither embedded nor visible."""
    folders = """
    [[mail_synchronization.accounts.folders]]
    alias = " sent "
    special_use = "Sent"
    [[mail_synchronization.accounts.folders]]
    alias = "old"
    remote_path = "Old"
    synchronize = false
    """
    mappings = load_settings(write(tmp_path, ACCOUNT + folders)).mail_synchronization.accounts[0].folders
    assert mappings is not None
    assert (mappings[0].alias, mappings[0].special_use, mappings[0].visible_to_tools) == ("SENT", SpecialUse.SENT, True)
    assert (mappings[1].visible_to_tools, mappings[1].generate_embeddings) == (False, False)


def test_only_a_loopback_listener_is_accepted(tmp_path: Path) -> None:
    """Nothing protects the pages yet, so no other machine may reach them."""
    (defect,) = refused(tmp_path, '[http]\nhost = "0.0.0.0"\n')
    assert defect.startswith("http.host: ")


def test_a_local_account_has_no_server(tmp_path: Path) -> None:
    """An account for imports is complete with two names, and a server on it is a contradiction."""
    local = '[[mail_synchronization.accounts]]\naccount_id = "old"\ndisplay_name = "Old"\nkind = "local"\n'
    assert load_settings(write(tmp_path, local)).mail_synchronization.accounts[0].host is None
    (defect,) = refused(tmp_path, local + 'host = "h"\n')
    assert "local account" in defect


@pytest.mark.spec("OPS-33")
def test_a_password_inside_the_dsn_is_warned_about(tmp_path: Path) -> None:
    """It works, and the operator is told where it belongs, without the value."""
    settings = load_settings(write(tmp_path, '[persistence]\ndsn = "host=h password=sentinel"\n'))
    (warning,) = posture_warnings(settings)
    assert warning.startswith("persistence.dsn")
    assert "sentinel" not in warning
    assert "sentinel" not in repr(settings)
