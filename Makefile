# Targets with a description (after ##) show up in `make help`. Everything is built for, and runs in, .venv.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help prerequisites setup demo train lab trainer ns3 test thorough test-sim test-train test-lab rust-build rust-test python-test peers numbers generate bench fuzz rust-fuzz python-fuzz
.PHONY: extension packages lint rust-lint python-lint stubs hooks reference docs wheel release clean

PYTHON_MINIMUM := 3.11
RUST_MINIMUM := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# The random cases of the property tests; `make test SEED=$$RANDOM` tries others. `make thorough` sets THOROUGH, which
# tests in Python read (tests/python/thorough.py).
SEED ?= 20260101
SECONDS_EACH := $(or $(SECONDS),30)
# How the extension is built: `quick`, or `release` as in wheels, which takes twice as long to build and runs faster.
# Tests build it with `ci`, as Rust's tests, so that both share one build.
PROFILE ?= quick
test test-sim test-train test-lab rust-build rust-test rust-lint: PROFILE = ci
# Tests and fuzzers at a time.
JOBS ?= 3
BIN := .venv/bin
CARGO_PROFILE = --profile $(PROFILE)
CARGO_TEST = PYO3_PYTHON="$(CURDIR)/$(BIN)/python" cargo test --locked --quiet $(CARGO_PROFILE)
# `generate` alone, as its schemas of reports would build the simulator for tests a second time.
TESTED = --workspace --exclude micro --exclude generate
# Without a restart: a worker that takes the place of one that died may wait for ever.
PYTEST = $(BIN)/pytest --quiet --numprocesses $(JOBS) --dist loadgroup --max-worker-restart 0
DEVELOP = $(BIN)/maturin develop --profile $(PROFILE) --quiet
# Whatever environment is active, only .venv is written to.
export VIRTUAL_ENV := $(CURDIR)/.venv
# Python keeps what it compiled, also where a container says otherwise: a start takes a third less.
export PYTHONDONTWRITEBYTECODE :=
unexport CONDA_PREFIX PYTHONHOME PYTHONPATH

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

prerequisites:
	@PYTHON_MINIMUM=$(PYTHON_MINIMUM) RUST_MINIMUM=$(RUST_MINIMUM) bash .ci/prerequisites >/dev/null

setup: prerequisites $(BIN)/.installed extension ## Create .venv, install the pinned dependencies, build the simulator

extension: $(BIN)/.maturin
	@said=$$($(DEVELOP) --skip-install 2>&1) || { echo "$$said"; exit 1; }

$(BIN)/python:
	@python=$$(PYTHON_MINIMUM=$(PYTHON_MINIMUM) RUST_MINIMUM=$(RUST_MINIMUM) bash .ci/prerequisites); \
	"$$python" -m venv .venv

# What builds the simulator, before what it needs: packages come while processors build.
$(BIN)/.maturin: requirements/run.txt | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep ^maturin== $<)"
	@touch $@

# What the simulator and its build need. Python compiles the small part that it loads when it first does.
$(BIN)/.needed: requirements/run.txt $(BIN)/.maturin
	@echo "installing the pinned packages into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --requirement requirements/run.txt
	@touch $@

# What tests and lints need as well.
$(BIN)/.tools: requirements/dev.txt $(BIN)/.needed
	@echo "installing the pinned tools into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/dev.txt
	@touch $@

$(BIN)/.installed: requirements/run.txt pyproject.toml crates/py/Cargo.toml | $(BIN)/.maturin
	@echo "building the simulator (the first time takes a minute or two)"
	@$(MAKE) --no-print-directory --jobs 2 PROFILE=$(PROFILE) $(BIN)/.needed extension
	@said=$$($(DEVELOP) 2>&1) || { echo "$$said"; exit 1; }
	@touch $@

demo: setup ## Simulate a training step of a 64-NPU GPT from its traces, show where the time goes, open the report
	@mkdir -p results
	$(BIN)/armillary run examples/gpt-64 --groups examples/gpt-64/comm_group.json --platform examples/gpt-64/platform.yml --json results/demo.json --report results/demo.html
	@if test -n "$${DISPLAY:-}$${WAYLAND_DISPLAY:-}" || test "$$(uname)" = Darwin; then $(BIN)/python -m webbrowser "file://$(CURDIR)/results/demo.html" >/dev/null; fi

train: setup trainer $(BIN)/.train ## Train a recommendation model with two processes, next to the best possible scores
	$(BIN)/armillary train dlrm-criteo-kaggle --data synthetic --ranks 2 --samples 500000 --eval 100

# PyTorch, for `armillary train`.
$(BIN)/.train: $(BIN)/.tools requirements/train.txt
	@echo "installing PyTorch into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/train.txt
	@touch $@

$(BIN)/.extras: $(BIN)/.tools requirements/extras.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/extras.txt
	@touch $@

# The trainer in .venv, as it is here: the verbs `train`, `ingest`, `checkpoint`, `bench`. Without installing it, as PyTorch
# comes with the first training.
trainer: setup ## Add the trainer to .venv; PyTorch comes with the first training
	@said=$$(cd train && ../$(DEVELOP) --skip-install 2>&1) || { echo "$$said"; exit 1; }
	@echo "$(CURDIR)/train/python" > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/armillary_train.pth"

$(BIN)/.lab: $(BIN)/.installed lab/pyproject.toml lab/crates/py-peers/Cargo.toml
	@echo "adding the laboratory to .venv"; \
	said=$$(cd lab && ../$(DEVELOP) 2>&1) || { echo "$$said"; exit 1; }
	@touch $@

lab: setup trainer $(BIN)/.lab ## Add the laboratory (measurements, studies, fits) to .venv
	@said=$$(cd lab && ../$(DEVELOP) --skip-install 2>&1) || { echo "$$said"; exit 1; }

# Everything that tests and lints need from the package index.
packages: $(BIN)/.tools $(BIN)/.extras $(BIN)/.train

$(BIN)/.docs: $(BIN)/.tools requirements/docs.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/docs.txt
	@touch $@

ns3: ## Build the adapter of ns-3 (needs Debian's libns3-dev): target/adapters/armillary-ns3
	@$(MAKE) --no-print-directory --silent -C adapters/ns3
	@echo "armillary run ... --backend external:$(CURDIR)/target/adapters/armillary-ns3"

test: setup lab packages ## Run every test
	$(MAKE) --no-print-directory -j 2 PROFILE=$(PROFILE) rust-test python-test

thorough: ## Run every test with more drawn cases, others each time, and at full size (hours)
	$(MAKE) --no-print-directory test PROFILE=ci THOROUGH=1 SEED=$$RANDOM

test-sim: setup $(BIN)/.extras ## Run the simulator's tests in Python
	$(PYTEST) tests/python

test-train: setup trainer packages ## Run the trainer's tests
	$(PYTEST) train/tests

test-lab: setup lab packages ## Run the laboratory's tests
	$(PYTEST) lab/tests

rust-build: prerequisites
	$(CARGO_TEST) $(TESTED) --no-run
	$(CARGO_TEST) -p generate --no-run

rust-test: prerequisites
	PROPTEST_RNG_SEED=$(SEED) $(if $(THOROUGH),PROPTEST_CASES=1000) $(CARGO_TEST) $(TESTED)
	$(CARGO_TEST) -p generate

python-test:
	$(PYTEST)

peers: setup lab packages ## Ask live peers (ns-3, jax, ...), compare with the records: PEERS="jax ns3", RECORD=1
	@$(BIN)/python lab/peers/run_peers.py $(if $(RECORD),--record) $(PEERS)

numbers: setup lab packages ## Rerun every table of numbers in the documents; fail if one differs (an hour)
	$(BIN)/python tools/numbers_of_documents.py

generate: prerequisites ## Write the files that follow from Rust types (schema of reports, its tables)
	cargo run --locked --quiet -p generate

bench: prerequisites ## Measure speed (lab/bench/)
	cargo bench -p benches -p micro --locked

fuzz: setup lab ## Feed random bytes to every reader, SECONDS=30 each (a third of that where it is Python)
	$(MAKE) --no-print-directory rust-fuzz python-fuzz

rust-fuzz:
	@JOBS=$(JOBS) bash .ci/fuzz $(SECONDS_EACH)

python-fuzz:
	@$(BIN)/python fuzz/python/fuzz_readers.py --list | xargs -n 1 -P $(JOBS) \
		$(BIN)/python fuzz/python/fuzz_readers.py --seconds $$(( ($(SECONDS_EACH) + 2) / 3 )) --seed $(SEED)

lint: ## Check format, lints and types of Rust and Python
	$(MAKE) --no-print-directory python-lint rust-lint

python-lint: packages
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

stubs: setup lab packages ## Compare the types of the extensions in Python with what they have
	$(BIN)/python -m mypy.stubtest armillary._core armillary_train._train armillary_lab._peers

rust-lint: prerequisites $(BIN)/python
	cargo fmt --all --check
	PYO3_PYTHON="$$(pwd)/$(BIN)/python" cargo clippy --workspace --all-targets --locked --quiet $(CARGO_PROFILE) -- --deny warnings

hooks: $(BIN)/.tools ## Check format and lints before every commit (needs pre-commit)
	pre-commit install

reference: setup ## Write the tables of keys in docs/ from their declarations
	WRITE_DOCS=1 cargo test --quiet -p platform --test reference
	$(BIN)/python tools/platform_keys.py

docs: setup $(BIN)/.docs ## Build the documentation as a site in site/, and fail if a link leads nowhere
	RUSTDOCFLAGS="--deny warnings" PYO3_PYTHON="$$(pwd)/$(BIN)/python" cargo doc --workspace --no-deps --document-private-items --locked --quiet
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	cp -r target/doc site/rust

wheel: prerequisites $(BIN)/.tools ## Build the wheels and a source archive in dist/
	$(BIN)/maturin build --release --locked --out dist
	$(BIN)/maturin sdist --out dist
	cd train && ../$(BIN)/maturin build --release --locked --out ../dist
	cd lab && ../$(BIN)/maturin build --release --locked --out ../dist

release: $(BIN)/.tools ## Make the commit and the tag of a release: make release VERSION=0.2.0
	$(BIN)/python tools/release.py $(VERSION)

clean: ## Remove everything that was built (.venv, target, results, site)
	rm -rf .venv target dist results site .mypy_cache .ruff_cache .pytest_cache python/armillary/_core*.so train/python/armillary_train/_train*.so lab/python/armillary_lab/_peers*.so
