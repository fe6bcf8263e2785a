# One word per habit. `make` alone lists them.
# Everything lands in .venv and var; nothing else on this machine changes, except Debian packages when root asks for them.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PARALLEL ?= $(if $(PYTEST),0,3)
DISTRIBUTIONS := packages/message packages/inbox packages/mailkeep
TYPED := packages/message/src packages/inbox/src packages/mailkeep/src

.DEFAULT_GOAL := help
.PHONY: help setup demo run test check bench docs sweep clean lock dovecot cyrus rivals

help: ## list these words
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: setup dovecot ## mirror a demo mailbox from a real IMAP server, search it, serve it (ONCE=1: stop after the searches)
	@$(BIN)/python -m examples.demo $(if $(ONCE),--once)

run: setup ## mirror your own account into ~/.mailkeep and serve it
	@if $(BIN)/mailkeep account list --json | $(BIN)/python -c 'import json, sys; sys.exit(bool(json.load(sys.stdin)["accounts"]))'; \
	then $(BIN)/mailkeep account add; fi
	@$(BIN)/mailkeep sync --once
	@$(BIN)/mailkeep serve

test: setup dovecot cyrus ## run all tests (PYTEST="packages/message -k date" for some; PARALLEL=0 one after the other)
	@$(BIN)/python -m pytest -n $(PARALLEL) --dist loadfile $(PYTEST)

check: setup ## formatting, lint, types, import contracts, generated documents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(TYPED) benchmarks examples
	$(BIN)/lint-imports
	$(BIN)/python -m mailkeep.cli.reference --check

bench: setup dovecot rivals ## measure against mbsync, mu and notmuch (NAME=first_sync for one figure)
	@$(BIN)/python -m benchmarks $(NAME)

docs: setup ## write docs/reference anew from the code
	@$(BIN)/python -m mailkeep.cli.reference

sweep: setup dovecot cyrus ## the kill and cut tests in full length, before a release
	@MAILKEEP_KILLS=$(or $(KILLS),20) $(BIN)/python -m pytest packages/mailkeep/tests/integration/sync/test_kill.py $(wildcard packages/mailkeep/tests/integration/sync/test_cuts.py)
	@MAILKEEP_SWEEP=1 $(BIN)/python -m pytest packages/mailkeep/tests/integration/sync/test_kill_points.py
	@MAILKEEP_RELINKED=10000 $(BIN)/python -m pytest packages/mailkeep/tests/integration/sync/test_uid_validity.py -k large
	@MAILKEEP_SWEEP=1 $(BIN)/python -m pytest packages/mailkeep/tests/integration/mutations/test_kill_points.py packages/mailkeep/tests/integration/mutations/test_cut_points.py packages/mailkeep/tests/integration/mutations/test_killed_process.py
	@MAILKEEP_JOBS=20000 $(BIN)/python -m pytest --timeout 900 packages/mailkeep/tests/integration/jobs/test_processes.py
	@MAILKEEP_INBOX_CURSORS=25000 MAILKEEP_INBOX_EXAMPLES=200 $(BIN)/python -m pytest packages/inbox/tests/integration/test_http_fuzz.py

clean: ## remove the virtual environment, var and caches
	@rm -rf .venv var .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	@find packages benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

setup: $(READY)

$(READY): requirements.lock $(DISTRIBUTIONS:%=%/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "mailkeep needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "Python's venv module is not complete. On Debian or Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; }
	@test -x $(BIN)/pip || { rm -rf .venv && $(PYTHON) -m venv .venv; }
	@echo "Installing the pinned dependencies into .venv (once; a minute or two) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(DISTRIBUTIONS:%=-e %)
	@touch $@

lock: setup ## pin newer dependencies: requirements.in -> requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile requirements.in --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header --quiet -o requirements.lock

dovecot:
	@.ci/need dovecot:dovecot-imapd

cyrus:
	@.ci/cyrus

rivals:
	@.ci/need mbsync:isync mu:maildir-utils notmuch:notmuch npm:npm
