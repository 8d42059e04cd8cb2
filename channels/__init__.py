"""One adapter per provider: its payloads, its limits, and what its answers mean. Knows nothing of jobs."""
