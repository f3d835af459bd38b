"""The checks of a database, in files by what they read, and how they are run."""

from lcm_core.checks.check import Folders, Limits, Stage
from lcm_core.checks.messages import Repetition, repetitions_of
from lcm_core.checks.running import CHECKS, STAGES, STRUCTURE, WHOLE_FILE, run_checks
from lcm_core.checks.summaries import BROKEN_SUMMARIES, certainty_of

__all__ = [
    "BROKEN_SUMMARIES",
    "CHECKS",
    "STAGES",
    "STRUCTURE",
    "WHOLE_FILE",
    "Folders",
    "Limits",
    "Repetition",
    "Stage",
    "certainty_of",
    "repetitions_of",
    "run_checks",
]
