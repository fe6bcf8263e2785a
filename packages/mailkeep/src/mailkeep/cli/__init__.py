"""The command line `mailkeep`: noun then verb, results on stdout, guidance on stderr, documented exit codes.

One module per group of commands; `main` is the entry point. Commands translate options into calls of `mailkeep.app`
and values into text; they hold no mail rules. The help texts are the reference (`docs/reference/cli.md`).
"""

from mailkeep.cli.main import main

__all__ = ["main"]
