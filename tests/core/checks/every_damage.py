"""The damages of all families; importing their test files plants them."""

from tests.core.checks import (
    test_context,
    test_lineage,
    test_messages,
    test_metadata,
    test_search,
    test_state,
    test_summaries,
)
from tests.core.checks.planting import PLANTS

FILLED_BY = (
    test_context,
    test_lineage,
    test_messages,
    test_metadata,
    test_search,
    test_state,
    test_summaries,
)
DAMAGES = tuple(PLANTS.values())
