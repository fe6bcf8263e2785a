"""`python -m mailkeep` is the command `mailkeep`."""

from mailkeep.cli import main

main()
