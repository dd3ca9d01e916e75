# Two commands for a fresh machine: `make demo` and `make test`. Both build .venv first if it is missing or stale, with the
# versions of locks/: the demo with undrift alone ($(VENV)/installed), everything else with what developers need besides
# ($(VENV)/ready).
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
NEWEST ?=# --newest: not the locked versions (make newest)

.PHONY: demo test checks lint types unit times full flower attack lock newest oldest package fuzz bench docs linkcheck format clean other-python
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

$(VENV)/installed: pyproject.toml locks/demo.txt
	@$(PYTHON) tools/environment.py $(VENV) $(NEWEST)
	@touch $@

$(VENV)/ready: $(VENV)/installed locks/dev.txt
	@$(BIN)/python tools/environment.py $(VENV) dev $(NEWEST)
	@touch $@

demo: $(VENV)/installed      ## the main job: compare the methods on embedded data, and say what came of it
	@$(BIN)/undrift demo --out runs/demo --overwrite

test: checks unit            ## what must pass every day, in ten minutes on two cores
	@$(BIN)/python tools/full.py --passed test

# The linter and the types are checked on one Python: with locked versions they say the same on every machine.
checks: $(VENV)/ready
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; \
	then $(MAKE) --no-print-directory lint types; \
	else echo "lint and types are checked on Python 3.11 (make lint types PYTHON=python3.11)"; fi

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready
	MYPY_NUM_WORKERS=2 $(BIN)/mypy

unit: $(VENV)/ready
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

times: $(VENV)/ready         ## the tests of every day, and where their time goes: by what is done, by folder, by test
	$(BIN)/python -m pytest -p tools.times -n 2 --dist loadfile -m "not slow"

full: $(VENV)/ready          ## everything, in an hour; goes on where it stopped (make full MINUTES=30: as far as that goes)
	@$(BIN)/python tools/full.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only $(ONLY))

flower:                      ## the tests of Flower, in an environment of its own: it needs older versions of some libraries
	@$(PYTHON) tools/environment.py .venv-flower flower
	.venv-flower/bin/pytest -m "slow or not slow" tests/deploy/test_flower.py tests/deploy/test_flower_messages.py

LOCK = .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --upgrade \
	--custom-compile-command "make lock" --group build pyproject.toml
lock:                        ## locks/ anew: the newest versions that pyproject.toml allows, on every Python from 3.11 on
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --upgrade uv
	$(LOCK) --extra dev --output-file locks/dev.txt
	$(LOCK) --constraints locks/dev.txt --output-file locks/demo.txt
	$(LOCK) --extra flower --group flower-tests --output-file locks/flower.txt

newest:                      ## make test with the newest versions that pyproject.toml allows, in an environment of its own
	rm -rf .venv-newest
	$(MAKE) checks unit VENV=.venv-newest NEWEST=--newest

attack: $(VENV)/ready        ## kills, signals, rivals, full disks, bad input …: docs/reliability.md
	$(BIN)/python -m tests.attack

oldest:                      ## the tests with the oldest dependencies that pyproject.toml allows; they have wheels for 3.11
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "make oldest PYTHON=python3.11, please")'
	rm -rf .venv-oldest
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade pip uv
	.venv-oldest/bin/uv pip install --quiet --compile-bytecode --python .venv-oldest --resolution lowest-direct --editable ".[dev]"
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
	$(SPHINX) -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

linkcheck: $(VENV)/ready     ## addresses elsewhere that pages link to; needs the network
	UNDRIFT_DOCS=quick $(SPHINX) -b linkcheck docs docs/_build/linkcheck

format: $(VENV)/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-* .full dist docs/_build .mypy_cache .ruff_cache .hypothesis
