"""The Model Context Protocol face: four reading tools, over stdio and streamable HTTP.

`http_app` gives the stateless endpoint at /mcp as an ASGI application, `run_stdio` serves one client on standard input
and output. The tools translate and decide nothing; bounds, scope and errors are those of `mailkeep.search` and
`mailkeep.mailbox`. Nothing here can reach a mail server, so reading never changes a flag.
"""

from mailkeep.mcp.server import http_app, run_stdio

__all__ = ["http_app", "run_stdio"]
