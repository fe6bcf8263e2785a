"""The command line `mailkeep`: noun then verb, results on stdout, guidance on stderr, documented exit codes.

One module per group of commands; `main` is the entry point. Commands translate options into calls of `mailkeep.app`
and values into text; they hold no mail rules. The help texts are the reference (`docs/reference/cli.md`).
"""

import gc

# What importing makes lives as long as the process. Unless told, the collector looks through all of it dozens of times
# while it grows, a fifth of a command's start, and through the whole again at every full collection.
gc.disable()
from mailkeep.cli.main import main  # noqa: E402

gc.freeze()
gc.enable()

__all__ = ["main"]
