# Targets with a description (after ##) show up in `make help`. Everything is built for, and runs in, .venv.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help prerequisites setup demo test rust-test python-test bench fuzz lint clean

PYTHON_MINIMUM := 3.11
RUST_MINIMUM := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# The random cases of the property tests; `make test SEED=$$RANDOM` tries others.
SEED ?= 20260101
SECONDS_EACH := $(or $(SECONDS),30)
BIN := .venv/bin
# Whatever environment is active, only .venv is written to.
export VIRTUAL_ENV := $(CURDIR)/.venv
unexport CONDA_PREFIX PYTHONHOME PYTHONPATH

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

prerequisites:
	@PYTHON_MINIMUM=$(PYTHON_MINIMUM) RUST_MINIMUM=$(RUST_MINIMUM) bash .ci/prerequisites >/dev/null

setup: prerequisites $(BIN)/.installed ## Create .venv, install the pinned dependencies, build the simulator
	@said=$$($(BIN)/maturin develop --release --quiet --skip-install 2>&1) || { echo "$$said"; exit 1; }

$(BIN)/.installed: requirements/dev.txt pyproject.toml crates/py/Cargo.toml
	@python=$$(PYTHON_MINIMUM=$(PYTHON_MINIMUM) RUST_MINIMUM=$(RUST_MINIMUM) bash .ci/prerequisites); \
	echo "installing into .venv and building the simulator (the first time takes a few minutes)"; \
	test -x $(BIN)/python || "$$python" -m venv .venv; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/dev.txt; \
	said=$$($(BIN)/maturin develop --release --quiet 2>&1) || { echo "$$said"; exit 1; }
	@touch $@

demo: setup ## Simulate a training step of a 64-NPU GPT from its traces, show where the time goes, open the report
	@mkdir -p results
	$(BIN)/armillary run examples/gpt-64 --groups examples/gpt-64/comm_group.json --platform examples/gpt-64/platform.yml --json results/demo.json --report results/demo.html
	@if test -n "$${DISPLAY:-}$${WAYLAND_DISPLAY:-}" || test "$$(uname)" = Darwin; then $(BIN)/python -m webbrowser "file://$(CURDIR)/results/demo.html" >/dev/null; fi

$(BIN)/.extras: $(BIN)/.installed requirements/extras.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/extras.txt
	@touch $@

test: setup $(BIN)/.extras ## Run every test
	$(MAKE) --no-print-directory rust-test python-test

rust-test: prerequisites
	PROPTEST_RNG_SEED=$(SEED) PYO3_PYTHON="$$(pwd)/$(BIN)/python" cargo test --workspace --locked --quiet

python-test:
	$(BIN)/pytest --quiet

bench: prerequisites ## Measure speed (benches/)
	cargo bench -p benches --locked

fuzz: setup ## Feed random bytes to every reader, SECONDS=30 each (a third of that where it is Python)
	@bash .ci/fuzz $(SECONDS_EACH)
	@$(BIN)/python fuzz/python/fuzz_readers.py --seconds $$(( ($(SECONDS_EACH) + 2) / 3 )) --seed $(SEED)

lint: setup $(BIN)/.extras ## Check format, lints and types of Rust and Python
	cargo fmt --all --check
	PYO3_PYTHON="$$(pwd)/$(BIN)/python" cargo clippy --workspace --all-targets --locked --quiet -- --deny warnings
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

clean: ## Remove everything that was built (.venv, target, results)
	rm -rf .venv target dist results .mypy_cache .ruff_cache .pytest_cache python/armillary/_core*.so
