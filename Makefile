# Everything a developer or a newcomer runs.  `make install` happens by itself where it is needed.

MINUTES ?= 15
SEED ?=  # the preset's
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

CODE := actors cluster games inference learner network search streams native src CMakeLists.txt
DEPENDENCIES := pyproject.toml requirements
SKIP := -name __pycache__ -prune -o -name '*.so' -prune -o -name '*.pyc' -prune -o
hash = $(shell find $(1) $(SKIP) -type f -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0 cksum | cksum | tr ' ' '-')

# A stamp's name holds the checksum of what was installed: changed sources have no stamp yet.
VENV_STAMP := $(VENV)/.stamp-tools-$(call hash,$(DEPENDENCIES))
INSTALL_STAMP := $(VENV)/.stamp-zerofleet-$(call hash,$(DEPENDENCIES) $(CODE))

.PHONY: install train test lint format bench sanitize wheel-test clean

install: $(INSTALL_STAMP)

$(VENV_STAMP):
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@rm -f $(VENV)/.stamp-*
	@echo "Installing into $(VENV); the first time this takes a few minutes."
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements/constraints.txt -r requirements/build.txt
	@touch $@

$(INSTALL_STAMP): $(VENV_STAMP)
	@rm -f $(VENV)/.stamp-zerofleet-*
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation \
		-c requirements/constraints.txt '.[dev]'
	@touch $@

# A player learns Connect Four, then meets a search without a network in 200 games.
train: install
	$(BIN)/zerofleet train connect4 --minutes $(MINUTES) --match $(if $(SEED),--set seed=$(SEED))

# Tests that need the machine to themselves come last, one after another.
test: install
	$(BIN)/pytest -n 2 --dist loadfile -m "not serial and not gpu"
	$(BIN)/pytest -m "serial and not gpu"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p zerofleet
	PYTHONPATH=src $(BIN)/lint-imports
	$(BIN)/codespell

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The quick benchmarks; `make bench BENCH=memory` takes half an hour.
BENCH ?= search inference selfplay
bench: install
	@for name in $(BENCH); do echo "== $$name"; $(BIN)/python "benchmarks/$$name.py" || exit 1; done

# The C++ tests under the sanitizers: addresses, undefined behaviour, threads.
sanitize: install
	PATH="$(CURDIR)/$(BIN):$$PATH" native/test-sanitized.sh

# The wheel, installed and used from an empty folder.
wheel-test: install
	.ci/wheel-test

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
