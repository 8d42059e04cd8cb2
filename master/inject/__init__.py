"""Breaks a job of a test system on purpose, as the world would: `faultcast inject`, the demo, the tests."""

from master.inject.catalogue import FAULTS, Fault, find
from master.inject.ground import Ground
from master.inject.wish import Done, Wish

__all__ = ["FAULTS", "Done", "Fault", "Ground", "Wish", "find"]
