"""Interpreters of programs, and what they record."""
