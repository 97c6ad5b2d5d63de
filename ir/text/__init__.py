"""Attribute values, types and dims as text and back: what the printer and the parser of programs use."""
