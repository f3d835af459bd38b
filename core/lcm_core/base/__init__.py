"""Values without SQL: rows as records, errors, findings, settings, text, times, tokens, paths."""
