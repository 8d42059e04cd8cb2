"""Jobs, diagnosis, decision, recovery; the composition root (API, console, command line)."""
