"""What the status report says of embeddings (FIND-96)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mailkeep.embeddings.identity import ProfileIdentity
from mailkeep.embeddings.lifecycle import Estimate, Forecast
from mailkeep.embeddings.profiles import Profile
from mailkeep.embeddings.spend import SpendState
from mailkeep.providers import Health


@dataclass(frozen=True, slots=True)
class Coverage:
    """A profile, how much of the mail it covers, and whether it has its index."""

    profile: Profile
    estimate: Estimate
    has_index: bool


@dataclass(frozen=True, slots=True)
class EmbeddingReport:
    """Declared, serving and building models, the provider as it was last seen, and what the period has cost.

    `activation_outstanding`: the declared model is neither read nor being built. `next_pass_at` is known to the process
    that runs the passes, and None where they are switched off.
    """

    declared: ProfileIdentity | None
    activation_outstanding: bool
    serving: Coverage | None
    building: Coverage | None
    refused_emails: int
    health: Health
    spend: SpendState
    next_pass_at: datetime | None


def report_json(report: EmbeddingReport) -> dict[str, object]:
    """The report in the names of the administration's interface (docs/spec/operations.md)."""
    return {
        "declared": None if report.declared is None else geometry_json(report.declared),
        "activation_outstanding": report.activation_outstanding,
        "serving": _coverage_json(report.serving),
        "building": _coverage_json(report.building),
        "refused_email_count": report.refused_emails,
        "provider": {
            "state": report.health.state.value,
            "failure_class": None if report.health.failure_class is None else report.health.failure_class.value,
            "observed_at": report.health.observed_at,
        },
        "spend": spend_json(report.spend),
        "next_pass_at": report.next_pass_at,
    }


def forecast_json(outlook: Forecast) -> dict[str, object]:
    """What an activation would do and cost."""
    return {
        "forecast": outlook.prospect.value,
        "workload": workload_json(outlook.estimate),
        "spend": spend_json(outlook.spend),
        "is_metered": outlook.is_metered,
        "exceeds_spend_ceiling": outlook.exceeds_ceiling,
    }


def geometry_json(identity: ProfileIdentity) -> dict[str, object]:
    """A vector space."""
    return {
        "fingerprint": identity.fingerprint,
        "provider": identity.provider,
        "model": identity.model_identifier,
        "model_version": identity.model_version,
        "dimension": identity.dimension,
        "distance_metric": identity.distance_metric.value,
    }


def workload_json(estimate: Estimate) -> dict[str, object]:
    """What is done and what is outstanding."""
    return {
        "searchable_email_count": estimate.searchable_emails,
        "embedded_email_count": estimate.embedded_emails,
        "outstanding_email_count": estimate.outstanding_emails,
        "outstanding_passage_count": estimate.outstanding_passages,
        "outstanding_character_count": estimate.outstanding_characters,
        "approximate_token_count": estimate.approximate_tokens,
        "uncut_email_count": estimate.uncut_emails,
    }


def spend_json(spend: SpendState) -> dict[str, object]:
    """A period."""
    return {
        "period_starts_at": spend.period_starts_at,
        "period_ends_at": spend.period_ends_at,
        "consumed_input_character_count": spend.consumed,
        "ceiling_input_character_count": spend.ceiling,
        "remaining_input_character_count": spend.remaining,
    }


def _coverage_json(coverage: Coverage | None) -> dict[str, object] | None:
    if coverage is None:
        return None
    return {
        **geometry_json(coverage.profile.identity),
        "activated_at": coverage.profile.activated_at,
        "has_index": coverage.has_index,
        "workload": workload_json(coverage.estimate),
    }
