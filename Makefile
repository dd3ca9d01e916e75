# Two commands for a fresh machine: `make demo` and `make test`. Both build .venv first if it is missing or stale: the demo with
# undrift alone ($(VENV)/installed), everything else with what developers need besides ($(VENV)/ready).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint types unit slow attack oldest package fuzz bench docs linkcheck format clean other-python
.DEFAULT_GOAL := demo
unexport PYTHONDONTWRITEBYTECODE # dozens of processes below import the same files

# A Python that is asked for by name (make test PYTHON=python3.13) replaces an environment that was made with another one.
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) --version),$(shell $(BIN)/python --version 2>/dev/null))
$(VENV)/installed: other-python
endif
endif
other-python:
	@$(PYTHON) --version >/dev/null
	rm -rf $(VENV)

$(VENV)/installed: pyproject.toml
	@$(PYTHON) tools/environment.py $(VENV)
	@touch $@

$(VENV)/ready: $(VENV)/installed
	@$(BIN)/python tools/environment.py $(VENV) dev
	@touch $@

demo: $(VENV)/installed      ## the main job: compare the methods on embedded data, and say what came of it
	@$(BIN)/undrift demo --out runs/demo --overwrite

test: lint types unit        ## everything that must pass

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready
	MYPY_NUM_WORKERS=2 $(BIN)/mypy

unit: $(VENV)/ready          ## most tests compile for seconds and run for milliseconds; the others want optimised programs
	UNDRIFT_TESTS_OPTIMISE=1 $(BIN)/pytest -n 2 -m "computes and not slow"
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not computes"

slow: $(VENV)/ready          ## what takes too long for every day
	UNDRIFT_TESTS_OPTIMISE=1 $(BIN)/pytest -n 2 -m slow

attack: $(VENV)/ready        ## kills, signals, rivals, full disks, bad input …: docs/reliability.md
	$(BIN)/python -m tests.attack

oldest:                      ## the tests with the oldest dependencies that pyproject.toml allows; they have wheels for 3.11
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "make oldest PYTHON=python3.11, please")'
	rm -rf .venv-oldest
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade pip uv
	.venv-oldest/bin/uv pip install --quiet --python .venv-oldest --resolution lowest-direct --editable ".[dev]"
	.venv-oldest/bin/pytest -n 2 --dist loadfile

package:                     ## sdist and wheel, checked, and the wheel tried in an environment of its own
	rm -rf dist .venv-package
	$(PYTHON) -m venv .venv-package
	.venv-package/bin/python -m pip install --quiet --upgrade pip build twine
	.venv-package/bin/python -m build --outdir dist .
	.venv-package/bin/twine check --strict dist/*
	.venv-package/bin/python -m pip install --quiet dist/*.whl
	cd dist && ../.venv-package/bin/undrift && ../.venv-package/bin/undrift --version
	cd dist && ../.venv-package/bin/undrift list && ../.venv-package/bin/undrift reproduce --list
	cd dist && ../.venv-package/bin/undrift demo --rounds 30 --out demo --overwrite && test -s demo/page.html

SECONDS_EACH ?= 60
fuzz: $(VENV)/ready          ## look for bytes that break a reader, a minute for each (make fuzz SECONDS_EACH=600)
	$(BIN)/python -m pip install --quiet --editable ".[fuzz]"
	$(BIN)/python fuzz --seconds $(SECONDS_EACH)

bench: $(VENV)/ready         ## ratios measured side by side on this machine
	$(BIN)/python -m benchmarks

SPHINX := $(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky
docs: $(VENV)/ready          ## the site in docs/_build/html, notebooks executed; a warning is an error
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	$(SPHINX) -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

linkcheck: $(VENV)/ready     ## addresses elsewhere that pages link to; needs the network
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	UNDRIFT_DOCS=quick $(SPHINX) -b linkcheck docs docs/_build/linkcheck

format: $(VENV)/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-oldest .venv-package dist docs/_build .mypy_cache .ruff_cache .hypothesis
