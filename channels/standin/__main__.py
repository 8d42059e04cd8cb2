"""`python -m channels.standin`."""

from channels.standin.command import main

raise SystemExit(main())
