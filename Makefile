# One command each to run, test, lint and bench. The first use sets up .venv and needs a network; after that
# nothing is fetched and nothing is done twice. A C compiler is used if there is one, and not needed.

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
# Compiling is a step of its own, below: an installation never waits for it or fails with it.
PIP := MAINSTEM_NO_COMPILE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check

# The modules that are compiled where possible: those with a .pxd beside them.
PXD := $(shell find src -name '*.pxd')
HOT := $(PXD) $(PXD:.pxd=.py)

.PHONY: help run test lint format bench test-peers clean
.NOTPARALLEL:

help:
	@echo "make run          start a broker on loopback with a sample pipeline (ARGS=\"--for 60\": a live minute)"
	@echo "make test         run the tests (ARGS=\"-k words\" for some)"
	@echo "make lint         style, types, import rules, budgets"
	@echo "make format       bring the code into house style"
	@echo "make bench        compare with Apache Kafka (ARGS=--help for more)"
	@echo "make test-peers   tests that need Java or Node programs, by hand"
	@echo "make clean        remove everything that make made"

run: $(VENV)/.run $(VENV)/.compiled
	@sh tools/java.sh
	@$(BIN)/mainstem demo $(ARGS)

test: $(VENV)/.test $(VENV)/.compiled
	@sh tools/java.sh
	@sh tools/postgres.sh
	@sh tools/rsyslog.sh
	@sh tools/kcat.sh
	@sh tools/strace.sh
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/lint-imports --no-cache --no-logo --config tools/cycles.toml
	$(BIN)/vulture
	$(BIN)/python tools/budgets.py

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench $(VENV)/.compiled
	$(BIN)/python -m bench $(ARGS)

test-peers: $(VENV)/.test $(VENV)/.compiled
	$(BIN)/python -m pytest -m peers $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench tools -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.egg-info' -prune -exec rm -rf {} +
	find src \( -name '*.so' -o -name '*.c' \) -delete

$(BIN)/python:
	@sh tools/venv.sh $(PYTHON) $(VENV)

# Build tools live in the environment, so that compiling again needs no network.
$(VENV)/.base: pyproject.toml setup.py | $(BIN)/python
	@echo "Setting up $(VENV); the first time takes a minute or more"
	@$(PIP) 'setuptools>=77' 'Cython>=3.1'
	@$(PIP) --no-build-isolation --editable '.[demo]'
	@touch $@

# A compiled module hides its source: compile again whenever that changes.
$(VENV)/.compiled: $(VENV)/.base $(HOT)
	@if command -v "$${CC:-cc}" >/dev/null; \
	then echo "Compiling the hot modules"; $(BIN)/python setup.py --quiet build_ext --inplace >/dev/null; \
	else echo "No C compiler here: hot modules run uncompiled, slower (see mainstem doctor)"; fi
	@touch $@

$(VENV)/.run $(VENV)/.test $(VENV)/.lint $(VENV)/.bench: $(VENV)/.base

$(VENV)/.run:
	@echo "Fetching Spark, 450 MB, for the sample's pipeline"
	@$(PIP) --no-build-isolation --editable '.[demo,spark]'
	@touch $@

$(VENV)/.test:
	@$(PIP) --no-build-isolation --editable '.[demo,test]'
	@touch $@

# Types are checked against what the code imports, so lint wants the tests' packages too.
$(VENV)/.lint:
	@$(PIP) --no-build-isolation --editable '.[demo,test,lint]'
	@touch $@

$(VENV)/.bench:
	@$(PIP) --no-build-isolation --editable '.[demo,test,bench]'
	@touch $@
