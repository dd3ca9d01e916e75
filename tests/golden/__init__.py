"""What people see on the terminal, kept as text: help, errors, tables, JSON. `python -m tests.golden` writes it anew."""
