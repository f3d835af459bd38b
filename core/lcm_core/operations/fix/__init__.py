"""Fixes: plans that fix findings of the doctor without a model."""

from lcm_core.operations.fix.context import Keep
from lcm_core.operations.fix.planning import Fixes, plan_fixes

__all__ = ["Fixes", "Keep", "plan_fixes"]
