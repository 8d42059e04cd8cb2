"""Weighs the evidence of one run: what went wrong, where, and how sure that is. Pure; see DESIGN.md 7."""

from master.diagnosis.judge import diagnose

__all__ = ["diagnose"]
