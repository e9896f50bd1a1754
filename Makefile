# Every target sets up what it needs: Python 3.10 or newer, make and git suffice.
#   make demo                   see a cluster grow from nothing and shrink back
#   make test                   everything that has to be green
#   make test PYTHON=python3.12 the same with another Python

PYTHON ?= python3
REPEAT ?= 20

VENV := .venv
BIN := $(VENV)/bin
# The stamp carries the Python version: another PYTHON makes the environment anew.
READY := $(VENV)/.ready-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo none)

.PHONY: demo test lint types contracts doctest unit repeat bench format lock setup clean

demo: $(READY)
	$(BIN)/dask fleet run --adapt 0:4 -- $(BIN)/python examples/wordcount.py

# One after the other, the tests last, also under make -j.
test: $(READY)
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory contracts
	@$(MAKE) --no-print-directory doctest
	@$(MAKE) --no-print-directory unit

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)
	$(BIN)/mypy

contracts: $(READY)
	$(BIN)/lint-imports

doctest: $(READY)
	$(BIN)/python -m pytest -q --doctest-modules src examples

unit: $(READY)
	$(BIN)/python -m pytest

repeat: $(READY)
	@for run in $$(seq $(REPEAT)); do \
	    echo "run $$run of $(REPEAT)"; \
	    $(BIN)/python -m pytest -q -m integration || exit 1; \
	done

bench: $(READY)
	@ls benchmarks/*.py >/dev/null 2>&1 || { echo "no benchmark yet"; exit 1; }
	@set -e; for script in benchmarks/*.py; do \
	    echo "$$script"; $(BIN)/python "$$script"; \
	done

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The newest versions that fit, for every Python from 3.10 up, with hashes.
lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet uv
	$(VENV)-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.10 \
	    --generate-hashes --strip-extras --custom-compile-command 'make lock' \
	    --output-file requirements/run.txt pyproject.toml
	$(VENV)-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.10 \
	    --generate-hashes --strip-extras --custom-compile-command 'make lock' \
	    --constraints requirements/run.txt \
	    --output-file requirements/dev.txt pyproject.toml requirements/dev.in

setup: $(READY)

# An environment that stands and has this Python is brought up to date; any other
# is made anew.
$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c '' 2>/dev/null || { \
	    echo "dask-fleet: $(PYTHON) does not run here;" \
	         "name another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	    echo "dask-fleet: needs Python 3.10 or newer, $(PYTHON) is older;" \
	         "name another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "dask-fleet: $(PYTHON) cannot make virtual environments;" \
	         "on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@version='import sys; print(sys.version_info[:2])'; \
	if [ "$$($(BIN)/python -c "$$version" 2>/dev/null)" = "$$($(PYTHON) -c "$$version")" ] \
	    && $(BIN)/python -m pip --version >/dev/null 2>&1; \
	then echo "bringing $(VENV) up to date"; \
	else echo "making $(VENV)"; $(PYTHON) -m venv --clear $(VENV); fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --no-deps --no-build-isolation --editable .
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-lock build dist .hypothesis .import_linter_cache \
	    .mypy_cache .pytest_cache .ruff_cache
	find src tests examples -name __pycache__ -type d -exec rm -rf {} +
