"""`python -m master.cli`: how `faultcast up` starts its own parts."""

from master.cli import main

main()
