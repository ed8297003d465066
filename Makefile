# On a fresh machine: Python 3.11+, pip and make are enough. Each target makes the environment it
# needs and refreshes it when pyproject.toml changes. `make PYTHON=python3.13 test` picks another
# interpreter (after `make distclean`: an environment keeps the one it was made with).

PYTHON ?= python3
JOBS   ?= 2
N      ?= 100000
SEED   ?= 0
BROWSER := chromium fonts-dejavu-core

comma   := ,

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help run test browser fuzz lint bench docs web clean distclean

help:
	@echo "make run        the first example, then a network on handwritten digits, into runs/digits"
	@echo "make test       lint, then tests, doctests, README and docs (JOBS=$(JOBS) workers)"
	@echo "make fuzz       compiled against eager on N=$(N) random programs of each kind, from SEED=$(SEED)"
	@echo "make lint       ruff, mypy, direction of imports"
	@echo "make bench      beside the peers, in .venv-bench, into docs/benchmarks.md; PART=compiled: one"
	@echo "make docs       the site, in site/: opens from disk"
	@echo "make web        the explorer page, from web/ into the package (needs Node.js)"
	@echo "make clean      remove caches and build outputs; distclean: environments too"

# An environment is ready when its stamp is newer than pyproject.toml. $(1): folder, $(2): extras.
# The second line serves Pythons that come with pip but without ensurepip.
define install
	@echo "==> $(1): installing backsolve$(2)"
	@$(1)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(1) || \
	  { $(PYTHON) -m venv --clear --without-pip $(1) && \
	    $(PYTHON) -m pip --python $(1)/bin/python install --quiet pip; }
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.$(2)'
	@touch $@
endef

.venv/.ready-run: pyproject.toml
	$(call install,.venv,[train])

.venv/.ready-dev: pyproject.toml
	$(call install,.venv,[test$(comma)lint])

.venv/.ready-docs: pyproject.toml
	$(call install,.venv,[docs])

.venv-bench/.ready: pyproject.toml
	$(call install,.venv-bench,[bench])

run: .venv/.ready-run
	@.venv/bin/python examples/first.py
	@echo
	@.venv/bin/backsolve train --data digits --model cnn --seed 3 --epochs 30 --out runs/digits --fresh

lint: .venv/.ready-dev
	@echo "==> ruff check"
	@.venv/bin/ruff check .
	@echo "==> ruff format --check"
	@.venv/bin/ruff format --check .
	@echo "==> mypy"
	@.venv/bin/mypy
	@echo "==> import-linter"
	@.venv/bin/lint-imports --no-logo --no-cache

test: lint browser
	@echo "==> pytest"
	@.venv/bin/python -m pytest -n $(JOBS) --quiet

# Tests of pages look at them in Chromium, which is Debian's to install; elsewhere they are skipped.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "==> installing chromium"; \
	    apt-get install --yes --quiet=2 --no-install-recommends $(BROWSER) >/dev/null 2>&1 || \
	      { apt-get update --quiet=2 && \
	        apt-get install --yes --quiet=2 --no-install-recommends $(BROWSER) >/dev/null; }; \
	  else echo "==> no chromium: tests of pages are skipped"; fi

fuzz: .venv/.ready-dev
	@.venv/bin/python -m backsolve.testing.fuzz $(N) $(SEED)
	@.venv/bin/python -m backsolve.testing.fuzz_extremes $(N) $(SEED)
	@.venv/bin/python -m backsolve.testing.fuzz_control $(N) $(SEED)

bench: .venv-bench/.ready
	@.venv-bench/bin/python benchmarks/report.py $(PART)

docs: .venv/.ready-docs
	@echo "==> mkdocs"
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --quiet
	@echo "site/index.html"

web/node_modules/.ready: web/package-lock.json
	@cd web && npm ci --silent --no-audit --no-fund
	@touch $@

web: web/node_modules/.ready
	@cd web && npm run --silent check && npm run --silent build

clean:
	@rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -path './.venv*' -prune -o -path ./.git -prune -o \
	  -type d -name __pycache__ -exec rm -rf {} +

distclean: clean
	@rm -rf .venv .venv-bench
