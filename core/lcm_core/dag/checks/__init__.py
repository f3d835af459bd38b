"""The rules of the checks, over records and without I/O: a module per family (docs/engine/doctor.md)."""
