"""`python -m mailkeep.mcp` prints the tools as they are published: the content of docs/reference/mcp-tools.json."""

import sys

from mailkeep.mcp.catalog import rendered

sys.stdout.write(rendered())
