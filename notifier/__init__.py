"""Alerts become deliveries, deliveries become attempts, and the delivery log tells the truth about each."""
