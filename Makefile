# Two commands to know: make demo, make test. "make help" lists the others.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
INSTALL := $(RUN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PINS := pyproject.toml constraints.txt
WORKERS ?= 2
CODE := src tests benchmarks docs

# A stamp for each set of packages, so that each is installed once, and again when the pins change.
CORE := $(VENV)/.core
DEV := $(VENV)/.dev
BENCH := $(VENV)/.bench
DOCS := $(VENV)/.docs

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-x64 lint format docs bench bench-samplers clean

help:  ## list these commands
	@awk -F ':.*## *' '/^[a-z0-9-]+:.*##/ {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(DEV)  ## create .venv and install the package with everything needed to work on it

demo: $(CORE)  ## infer a posterior from a simulator, and write a page about it (3 minutes at most)
	$(RUN)/genbayes demo

test: $(DEV)  ## the fast tests, the examples in docstrings and the README
	$(RUN)/pytest -n $(WORKERS)

test-slow: $(DEV)  ## the statistical tests that take minutes
	$(RUN)/pytest -n $(WORKERS) -m slow

test-x64: $(DEV)  ## the fast tests in double precision
	JAX_ENABLE_X64=1 $(RUN)/pytest -n $(WORKERS) tests

lint: $(DEV)  ## formatting, lint and types, as continuous integration checks them
	$(RUN)/ruff format --check $(CODE)
	$(RUN)/ruff check $(CODE)
	$(RUN)/basedpyright

format: $(DEV)  ## put the code in the common form
	$(RUN)/ruff format $(CODE)
	$(RUN)/ruff check --fix $(CODE)

docs: $(DOCS)  ## write the documentation as a site: site/index.html opens in a browser, without a network
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --quiet

bench: $(BENCH)  ## time a step, compilation and the scores, next to plain loops
	$(RUN)/python -m benchmarks

bench-samplers: $(BENCH)  ## compare all samplers and rewrite the tables of docs/samplers.md (a quarter of an hour of one core; goes on where it was interrupted)
	$(RUN)/python -m benchmarks samplers

clean:  ## remove .venv and what tests, builds and the demo left behind
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist site src/*.egg-info runs/demo

$(RUN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "genbayes needs Python 3.11 or later: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(CORE): $(PINS) | $(RUN)/python
	$(INSTALL) -e .
	@touch $@

$(DEV): $(PINS) | $(RUN)/python
	$(INSTALL) -e '.[dev]'
	@touch $(CORE) $@

$(BENCH): $(PINS) | $(RUN)/python
	$(INSTALL) -e '.[bench]'
	@touch $(CORE) $@

$(DOCS): $(PINS) | $(RUN)/python
	$(INSTALL) -e '.[docs]'
	@touch $(CORE) $@
