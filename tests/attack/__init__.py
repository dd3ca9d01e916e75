"""An attack on the product as its users meet it: kills, signals, rivals, full disks, hostile input, long runs.

The product is a black box here: the command `undrift` and the public names of the library. Every part is a function that
attacks a number of times and returns what it counted (`tally.Tally`); `python -m tests.attack` runs them all, writes
docs/reliability.json, and makes docs/reliability.md from it.
"""
