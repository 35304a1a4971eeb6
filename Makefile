# make run   the main job on an embedded default (installs only what it needs)
# make test  ruff, mypy and every fast test
# make bench speed and cost, as ratios measured in one run
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
DEV_EXTRAS := video,seismic,eval,track,export,serve,scale,hub,dev
# Tests use one thread each and as many processes as there are cores.
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

.PHONY: run test test-slow fuzz bench lint docs clean
.DEFAULT_GOAL := run

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run-stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing planformer (torch is the large part; about a minute) ..."
	$(PIP) install --constraint constraints.txt --editable ".[eval]"
	@touch $@

$(VENV)/.dev-stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing planformer with its development tools (a few minutes) ..."
	$(PIP) install --constraint constraints.txt --editable ".[$(DEV_EXTRAS)]"
	@touch $@ $(VENV)/.run-stamp

run: $(VENV)/.run-stamp
	$(BIN)/planformer quickstart

lint: $(VENV)/.dev-stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) -m "not slow and not fuzz" --durations=15

test-slow: $(VENV)/.dev-stamp
	$(BIN)/pytest -m "slow" --durations=15

fuzz: $(VENV)/.dev-stamp
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) -m "fuzz"

bench: $(VENV)/.dev-stamp
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
