# Two commands for a fresh machine: `make demo` and `make test`. Both build .venv first if it is missing or stale.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint types unit slow bench format clean
.DEFAULT_GOAL := demo

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

demo: $(VENV)/ready          ## the main job: compare the methods on embedded data
	$(BIN)/undrift compare --out runs/demo --overwrite

test: lint types unit        ## everything that must pass

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready
	$(BIN)/mypy

unit: $(VENV)/ready
	$(BIN)/pytest -n 2 --dist loadfile

slow: $(VENV)/ready          ## what takes too long for every day
	$(BIN)/pytest -n 2 -m slow

bench: $(VENV)/ready         ## ratios measured side by side on this machine
	$(BIN)/python -m benchmarks

format: $(VENV)/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
