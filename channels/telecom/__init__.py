"""Providers of short messages and phone calls, each through its official SDK (an extra of ours)."""
