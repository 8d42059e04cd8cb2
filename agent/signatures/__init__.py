"""Known line forms of training logs and kernel logs, and the scanner that finds them.

Used by the agent (live) and by `faultcast diagnose` (files). Standard library, google-re2 and
hyperscan only.
"""

from agent.signatures.custom import check_pattern
from agent.signatures.framing import is_kernel_line, own_words
from agent.signatures.model import Isolate, Match, Role, Signature, Trigger
from agent.signatures.scanner import SIGNATURES, Scanner, signature
from agent.signatures.sieve import OF_LOGS_AND_KERNELS, Sieve
from agent.signatures.steps import is_progress, step_of

__all__ = [
    "OF_LOGS_AND_KERNELS",
    "SIGNATURES",
    "Isolate",
    "Match",
    "Role",
    "Scanner",
    "Sieve",
    "Signature",
    "Trigger",
    "check_pattern",
    "is_kernel_line",
    "is_progress",
    "own_words",
    "signature",
    "step_of",
]
