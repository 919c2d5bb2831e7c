# Two commands do all the set-up: `make run` and `make test`. Everything else is for working on GoQueue.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_BIN := build/bench/venv/bin
BENCH_STAMP := build/bench/.installed
MEASURE := $(BIN)/goqueue bench

.DEFAULT_GOAL := help
.PHONY: help run test test-long check format lock bench bench-peers readme clean

help: ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

run: $(STAMP) ## Install, then run a broker, and a pipeline on Spark over orders that are published to it
	$(BIN)/goqueue demo --data-dir data/demo

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

$(BENCH_STAMP): requirements-bench.lock bench/install-peers
	PYTHON=$(PYTHON) bench/install-peers python
	@touch $@

bench: $(STAMP) $(BENCH_STAMP) ## Run all benchmarks and store their results
	$(MEASURE) log --output bench/results/log.json
	$(MEASURE) publish --output bench/results/publish.json
	$(MEASURE) publish --flush interval --acks 1 --output bench/results/publish-interval.json
	$(MEASURE) replay --output bench/results/replay.json
	$(MEASURE) replay --client raw --output bench/results/replay-raw.json
	$(MEASURE) latency --output bench/results/latency.json
	$(MEASURE) latency --flush interval --acks 1 --output bench/results/latency-interval.json
	$(MEASURE) requests --output bench/results/requests.json
	$(MEASURE) requests --flush interval --acks 1 --output bench/results/requests-interval.json
	$(MEASURE) groups --output bench/results/groups.json
	$(MEASURE) transactions --output bench/results/transactions.json
	$(MEASURE) queue --output bench/results/queue.json
	$(MEASURE) partitions --output bench/results/partitions.json
	$(MEASURE) spark --output bench/results/spark.json
	$(MAKE) bench-peers

bench-peers: $(BENCH_STAMP) ## Compare with the peers that are installed (bench/install-peers installs them)
	mkdir -p docs/images
	$(BENCH_BIN)/python -m bench.peers --output bench/results/peers.json
	$(BENCH_BIN)/python -m bench.peers.chart bench/results/peers.json docs/images/peers.png docs/images/peers.svg

readme: $(STAMP) ## Put the stored results into README.md
	$(BIN)/python bench/readme.py

clean: ## Remove what the commands above made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
