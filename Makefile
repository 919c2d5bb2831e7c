# Two commands do all the set-up: `make run` and `make test`. Everything else is for working on GoQueue.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help run test test-long check format lock bench readme clean

help: ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

run: $(STAMP) ## Install, then run the log benchmark
	$(BIN)/goqueue bench log

test: $(STAMP) ## Install, then run all tests
	$(BIN)/pytest

test-long: $(STAMP) ## Run the long forms of the fault and property tests as well
	$(BIN)/pytest -m "long or not long" --long

check: $(STAMP) ## Lint, formatting, types, import contracts, tidiness
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 0 tests/tidy

format: $(STAMP) ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lock: ## Write requirements.lock anew from pyproject.toml
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet uv
	$(VENV)-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-annotate --no-emit-index-url --no-emit-find-links --extra dev --output-file requirements.lock pyproject.toml
	rm -rf $(VENV)-lock

bench: $(STAMP) ## Run the benchmarks and store their results
	$(BIN)/goqueue bench log --json --output bench/results/log.json

readme: $(STAMP) ## Put the stored results into README.md
	$(BIN)/python bench/readme.py

clean: ## Remove what the commands above made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
