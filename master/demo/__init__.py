"""The main job shown on one machine: `faultcast demo`."""

from master.demo.run import run_demo

__all__ = ["run_demo"]
