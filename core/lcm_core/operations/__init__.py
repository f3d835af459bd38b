"""Operations, one a file: each reads what it needs, refuses what it must, and returns a plan. None writes."""
