"""Speed and memory, measured beside what they are compared with: `python -m benchmarks --help`.

Seconds differ from machine to machine and from minute to minute; a ratio of two things timed in turns holds still. Every case
therefore brings its opponents, shows that both sides compute the same, and reports medians with quartiles. Each runs in a
process of its own, and says so if something else kept the machine busy meanwhile.
"""
