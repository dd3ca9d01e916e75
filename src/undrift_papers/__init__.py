"""The papers' figures, tables and theorems, each as an item that is run, drawn and held against what the paper says of it."""
