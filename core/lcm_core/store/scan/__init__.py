"""The checks of a database: what they read, and how they are run."""

from lcm_core.dag.checks.facts import Limits
from lcm_core.store.scan.duplicates import repetitions_of
from lcm_core.store.scan.files import Folders
from lcm_core.store.scan.run import run_checks

__all__ = ["Folders", "Limits", "repetitions_of", "run_checks"]
