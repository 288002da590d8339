"""`python -m zerofleet`: the same as the command `zerofleet`."""

from zerofleet.cluster.cli import main

main()
