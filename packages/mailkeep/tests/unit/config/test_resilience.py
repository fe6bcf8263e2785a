"""The settings of patience: defaults of each class, bounds, contradictions."""

from datetime import timedelta
from pathlib import Path

import pytest

from mailkeep.config import PipelineClass, ResilienceSettings, load_settings
from mailkeep.errors import ConfigurationRefused

TABLE = {
    "mailbox_session_establishment": (3, 2, 30, 30, 120, 5, 60, 30, 4),
    "mailbox_data_retrieval": (3, 1, 15, 60, 180, 10, 30, 15, 8),
    "database_command_execution": (3, 0.2, 2, 15, 30, 20, 30, 5, 256),
    "ai_provider_invocation": (3, 2, 30, 120, 300, 5, 60, 30, 4),
    "mail_authorization_server_invocation": (3, 0.5, 5, 10, 30, 10, 60, 30, 8),
}


@pytest.mark.spec("SYNC-34", "SYNC-35")
@pytest.mark.parametrize("kind", list(PipelineClass))
def test_each_class_has_defaults_of_its_own(kind: PipelineClass) -> None:
    """As the table says; the breaker opens at half everywhere. Setting one value leaves the others."""
    given = ResilienceSettings.model_validate({kind.value: {"concurrency_limit": 77}})
    for settings, limit in ((ResilienceSettings().of(kind), TABLE[kind.value][-1]), (given.of(kind), 77)):
        times = (
            settings.base_delay,
            settings.max_delay,
            settings.attempt_timeout,
            settings.total_timeout,
        )
        window, pause = settings.breaker_sampling_window, settings.breaker_break_duration
        assert (
            settings.attempts,
            *(time.total_seconds() for time in times),
            settings.breaker_minimum_throughput,
            window.total_seconds(),
            pause.total_seconds(),
            settings.concurrency_limit,
        ) == (*TABLE[kind.value][:-1], limit)
        assert settings.breaker_failure_ratio == 0.5


def defects(home: Path, text: str) -> tuple[str, ...]:
    (home / "mailkeep.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigurationRefused) as caught:
        load_settings(home)
    return caught.value.defects


@pytest.mark.spec("SYNC-35")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attempts", "0"),
        ("attempts", "11"),
        ("breaker_minimum_throughput", "1"),
        ("breaker_minimum_throughput", "1001"),
        ("breaker_failure_ratio", "0.001"),
        ("breaker_failure_ratio", "1.1"),
        ("concurrency_limit", "0"),
        ("concurrency_limit", "1001"),
        ("attempt_timeout", '"10ms"'),
        ("total_timeout", '"2d"'),
        ("breaker_sampling_window", '"500ms"'),
        ("breaker_break_duration", '"2d"'),
        ("max_delay", '"2d"'),
        ("waits", "1"),
    ],
)
def test_values_out_of_bounds_are_refused_by_their_path(tmp_path: Path, key: str, value: str) -> None:
    """And so are keys that do not exist."""
    found = defects(tmp_path, f"[resilience.mailbox_data_retrieval]\n{key} = {value}\n")
    assert [defect.partition(":")[0] for defect in found] == [f"resilience.mailbox_data_retrieval.{key}"]


@pytest.mark.spec("SYNC-35")
def test_contradictions_and_unknown_classes_are_refused(tmp_path: Path) -> None:
    """Attempts longer than the whole, waits that grow downwards or beyond it, and a class nobody calls."""
    found = defects(
        tmp_path,
        """
        [resilience.mailbox_data_retrieval]
        attempt_timeout = "5m"
        [resilience.mailbox_session_establishment]
        base_delay = "40s"
        [resilience.ai_provider_invocation]
        max_delay = "6m"
        [resilience.email_delivery]
        attempts = 2
        """,
    )
    assert [defect.partition(":")[0] for defect in found] == [
        "resilience.ai_provider_invocation.max_delay",
        "resilience.email_delivery",
        "resilience.mailbox_data_retrieval.attempt_timeout",
        "resilience.mailbox_session_establishment.base_delay",
    ]
    alone = '{ attempts = 1, base_delay = "1m", max_delay = "1s" }'
    (tmp_path / "mailkeep.toml").write_text(f"[resilience]\nmailbox_data_retrieval = {alone}\n", "utf-8")
    assert load_settings(tmp_path).resilience.mailbox_data_retrieval.base_delay == timedelta(minutes=1)
