"""The loopback web face: status and search pages, one message, probes, JSON status, and the MCP endpoint mounted.

`create_app` builds the ASGI application for an open `App`; `serve` runs it until it is told to stop. Nothing here
decides: every number and every result comes from `mailkeep.app` and the capabilities.
"""

from mailkeep.http.application import create_app
from mailkeep.http.server import Listener, listen, serve

__all__ = ["Listener", "create_app", "listen", "serve"]
