"""What `undrift` says to somebody who has not asked for anything yet; it fits 60 columns."""

DOORS = """undrift: federated optimisation that arrives.

see it, in about a minute
  undrift demo --open

your data: which method, which step size, and why
  undrift advise --problem csv:folder,label=ill

your method, twenty lines of Python
  undrift run --method mine.py:factory --problem quadratic

All commands: undrift --help
Each of them, with examples: undrift COMMAND --help
"""
