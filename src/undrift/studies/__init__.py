"""Studies: what is run, written down. A study file in TOML becomes a problem, a plan and methods."""
