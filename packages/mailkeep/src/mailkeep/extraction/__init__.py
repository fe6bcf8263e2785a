"""Octets of a file in, its text out: format readers without I/O, and the confined worker process that runs them.

Nothing of the service is imported here, so that the worker starts quickly and holds no setting, secret or connection.
`mailkeep.attachments` decides what is read and keeps what was read.
"""

from mailkeep.extraction.formats import Format, format_of
from mailkeep.extraction.model import Bounds, Extraction, Outcome

__all__ = ["Bounds", "Extraction", "Format", "Outcome", "format_of"]
