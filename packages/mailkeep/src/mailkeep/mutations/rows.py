"""From a row of `mailbox_mutations` to its record. A row whose terms are not its mutation's is refused (MUT-10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mailkeep.config import AuthoredDeleteDisposition
from mailkeep.errors import MailChangeInvalid, MutationFailedUnexpectedly
from mailkeep.mutations.model import (
    Mutation,
    MutationRecord,
    Occurrence,
    Placement,
    Requester,
    RequesterOrigin,
    Stage,
    Terms,
)
from mailkeep.mutations.terms import refuse_malformed


def record_of(row: Mapping[str, Any]) -> MutationRecord:
    """Raises MutationFailedUnexpectedly for a row that means nothing: it is never acted on with a fallback."""
    try:
        terms = _terms(row)
        refuse_malformed(terms)
        return _record(row, terms)
    except (ValueError, MailChangeInvalid) as error:
        raise MutationFailedUnexpectedly("the record of a change does not say what is to be done") from error


def _terms(row: Mapping[str, Any]) -> Terms:
    keywords, disposition = row["keywords"], row["local_disposition"]
    return Terms(
        mutation=Mutation(row["mutation"]),
        destination_folder_path=row["destination_folder_path"],
        destination_hierarchy_delimiter=row["destination_hierarchy_delimiter"],
        creates_destination=row["creates_destination"],
        desired_seen_state=row["desired_seen_state"],
        desired_flagged_state=row["desired_flagged_state"],
        keywords=None if keywords is None else tuple(keywords),
        local_disposition=None if disposition is None else AuthoredDeleteDisposition(disposition),
    )


def _record(row: Mapping[str, Any], terms: Terms) -> MutationRecord:
    abandoned_from, prior_keywords = row["abandoned_from_stage"], row["prior_keywords"]
    is_placed = row["placement_uid_validity"] is not None and row["placement_uid"] is not None
    return MutationRecord(
        id=row["id"],
        stored_email_id=row["stored_email_id"],
        account_id=row["mailbox_account_id"],
        source=Occurrence(row["mail_folder_id"], row["uid_validity"], row["uid"]),
        terms=terms,
        requester=Requester(RequesterOrigin(row["requester_origin"]), row["requester_identity"]),
        stage=Stage(row["stage"]),
        stage_changed_at=row["stage_changed_at"],
        abandoned_from_stage=None if abandoned_from is None else Stage(abandoned_from),
        issued_at=row["issued_at"],
        requires_source_removal=row["requires_source_removal"],
        placement=Placement(row["placement_uid_validity"], row["placement_uid"]) if is_placed else None,
        placement_observed_at=row["placement_observed_at"],
        source_removal_observed_at=row["source_removal_observed_at"],
        attempt_count=row["attempt_count"],
        last_failure_code=row["last_failure_code"],
        audit_trail_enabled=row["audit_trail_enabled"],
        prior_state=row["prior_state"],
        prior_keywords=None if prior_keywords is None else tuple(prior_keywords),
        undoes_mutation_id=row["undoes_mutation_id"],
        recorded_at=row["recorded_at"],
    )
