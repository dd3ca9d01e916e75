"""Figures, tables and diagrams: how results are shown to people."""
