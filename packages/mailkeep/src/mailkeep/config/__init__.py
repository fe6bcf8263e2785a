"""Where mailkeep lives on disk, what the operator asked for, and how secrets are reached by reference.

Everything here reads; only `edit` writes, and only for a person who runs `mailkeep account add` or `remove`.
Call `load_settings(home())` once, keep the frozen snapshot, resolve each secret at the moment it is used.
"""

from mailkeep.config.accounts import (
    AccountKind,
    AccountSettings,
    AuthenticationMechanism,
    AuthoredDeleteDisposition,
    ConnectionSecurity,
    ExpungedEmailDisposition,
    FolderMapping,
    SpecialUse,
    TransportSecuritySettings,
)
from mailkeep.config.embeddings import (
    FIRST_PARTY_ADDRESS,
    MAX_INDEXED_DIMENSION,
    DistanceMetric,
    EmbeddingBackfillSettings,
    EmbeddingEndpointSettings,
    EmbeddingsSettings,
    EndpointKind,
)
from mailkeep.config.home import home, settings_file
from mailkeep.config.jobs import JobsSettings, JobType, JobTypeSettings, ScheduleSettings
from mailkeep.config.load import load_settings, posture_warnings
from mailkeep.config.model import (
    AttachmentTextSettings,
    EmailContentSettings,
    HttpSettings,
    MailboxSearchSettings,
    MailSynchronizationSettings,
    McpEndpointSettings,
    PersistenceSettings,
    Settings,
)
from mailkeep.config.oauth import DataEncryptionSettings, OAuthGrant, OAuthSettings
from mailkeep.config.presets import connections_allowed
from mailkeep.config.reload import load_candidate, take_up
from mailkeep.config.resilience import PipelineClass, PipelineSettings, ResilienceSettings
from mailkeep.config.secrets import check_references, resolve_key, resolve_secret

__all__ = [
    "FIRST_PARTY_ADDRESS",
    "MAX_INDEXED_DIMENSION",
    "AccountKind",
    "AccountSettings",
    "AttachmentTextSettings",
    "AuthenticationMechanism",
    "AuthoredDeleteDisposition",
    "ConnectionSecurity",
    "DataEncryptionSettings",
    "DistanceMetric",
    "EmailContentSettings",
    "EmbeddingBackfillSettings",
    "EmbeddingEndpointSettings",
    "EmbeddingsSettings",
    "EndpointKind",
    "ExpungedEmailDisposition",
    "FolderMapping",
    "HttpSettings",
    "JobType",
    "JobTypeSettings",
    "JobsSettings",
    "MailSynchronizationSettings",
    "MailboxSearchSettings",
    "McpEndpointSettings",
    "OAuthGrant",
    "OAuthSettings",
    "PersistenceSettings",
    "PipelineClass",
    "PipelineSettings",
    "ResilienceSettings",
    "ScheduleSettings",
    "Settings",
    "SpecialUse",
    "TransportSecuritySettings",
    "check_references",
    "connections_allowed",
    "home",
    "load_candidate",
    "load_settings",
    "posture_warnings",
    "resolve_key",
    "resolve_secret",
    "settings_file",
    "take_up",
]
