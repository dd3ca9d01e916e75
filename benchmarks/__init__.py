"""Ratios measured side by side on the machine at hand: `python -m benchmarks --help`.

Seconds differ from machine to machine and from minute to minute; a ratio of two things timed in turns in one process holds
still. Every benchmark therefore brings what it is compared with, checks that both compute the same, and reports medians.
"""
