# `make run` and `make test` each set up what they need, in `.venv` and `.cache`.

PYTHON ?= python3
BIN := .venv/bin
# One set-up at a time in one checkout, where the system has flock.
LOCKED := $(shell command -v flock >/dev/null 2>&1 && echo flock .cache/lock)
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes

.PHONY: run test check bench soak docs screenshots lock clean

# The server runs without the inspector, so a machine without Node, or without a network, runs it, too.
run: .cache/run
	-@command -v npm >/dev/null && $(MAKE) --no-print-directory .cache/inspector/ready
	$(BIN)/python -m valuetracker serve

test: check .cache/postgres .cache/compiler .cache/sillytavern/ready .cache/chromium .cache/typescript/ready \
		.cache/inspector/ready
	$(PYTEST) $(SIDE_BY_SIDE)

# The tests start the program hundreds of times: let Python keep what it has compiled, also where
# the environment tells it not to.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

# Workers, each with one file at a time, in the order of tests/conftest.py. Tests wait much, so three
# of them keep two processors busy.
SIDE_BY_SIDE := --numprocesses 3 --dist loadfile --no-loadscope-reorder

# The quick checks: style and types.
check: .cache/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# ARGS="--quick --only write" measures one workload for a few seconds.
bench: .cache/dev .cache/wrk .cache/redis .cache/postgres \
		.cache/peers/fastify/ready .cache/peers/python/ready
	$(BIN)/python -m bench $(ARGS)

# The same tests with bigger numbers.
soak: .cache/dev .cache/postgres .cache/compiler .cache/sillytavern/ready .cache/chromium .cache/typescript/ready \
		.cache/inspector/ready
	VALUETRACKER_SOAK=1 $(PYTEST) -s

# Records the examples on a real server, then writes API.md.
docs: .cache/dev
	$(BIN)/python -m tests.support.walk.record
	$(BIN)/valuetracker docs --write API.md

# Makes the pictures in docs/images, and those of all parts of the panel in .cache/screenshots/gallery.
screenshots: .cache/dev .cache/sillytavern/ready .cache/chromium
	$(BIN)/python -m tests.sillytavern.screenshots
	$(BIN)/python -m tests.sillytavern.gallery

# Writes the hashed requirements anew from pyproject.toml.
lock: .cache/dev
	$(BIN)/python -m pip --disable-pip-version-check install --quiet uv
	$(BIN)/uv pip compile pyproject.toml $(LOCK_FLAGS) -o requirements/run.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra postgres $(LOCK_FLAGS) -o requirements/dev.txt
	$(BIN)/uv pip compile bench/peers/requirements.in $(LOCK_FLAGS) -o bench/peers/requirements.txt

LOCK_FLAGS := --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate --no-emit-index-url --no-emit-find-links --quiet

clean:
	rm -rf .venv .cache inspector/node_modules valuetracker/inspector

.cache/venv:
	mkdir -p .cache
	$(LOCKED) $(PYTHON) -m venv .venv
	touch $@

.cache/run: .cache/venv requirements/run.txt
	$(LOCKED) $(PIP) -r requirements/run.txt
	touch $@

.cache/dev: .cache/run requirements/dev.txt pyproject.toml
	$(LOCKED) $(PIP) -r requirements/dev.txt
	$(LOCKED) $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps \
		--no-build-isolation --editable .
	touch $@

# wrk loads the server in the benchmarks.
APT := apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.cache/wrk: .cache/venv
	command -v wrk >/dev/null || { $(SUDO) $(APT) update && $(SUDO) $(APT) install wrk; }
	touch $@

# The benchmarks start servers of others on ports of their own; these steps only bring the programs.
.cache/redis: .cache/venv
	command -v redis-server >/dev/null && command -v webdis >/dev/null || \
		{ $(SUDO) $(APT) update && $(SUDO) $(APT) install redis-server webdis; }
	touch $@

# Only better-sqlite3 may run its install script: it compiles itself where it finds no binary. The
# headers it needs for that often lie beside node; else it downloads them.
FASTIFY := bench/peers/fastify/package.json bench/peers/fastify/package-lock.json

.cache/peers/fastify/ready: $(FASTIFY) | .cache/venv
	$(LOCKED) sh -ec 'test -e $@ && test -z "$$(find $(FASTIFY) -newer $@)" && exit; \
		rm -rf $(@D); mkdir -p $(@D); cp $(FASTIFY) $(@D); cd $(@D); \
		node=$$(dirname "$$(dirname "$$(readlink -f "$$(command -v node)")")"); \
		test ! -e "$$node/include/node/node.h" || export npm_config_nodedir="$$node"; \
		npm ci --ignore-scripts --no-audit --no-fund; npm rebuild better-sqlite3; touch ready'

.cache/peers/python/ready: bench/peers/requirements.txt | .cache/venv
	$(LOCKED) sh -ec 'test $@ -nt $< && exit; rm -rf $(@D); $(PYTHON) -m venv $(@D); \
		$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes \
		-r bench/peers/requirements.txt; touch $@'

# The tests start a PostgreSQL of their own; this only brings its programs.
.cache/postgres: .cache/venv
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		{ $(SUDO) $(APT) update && $(SUDO) $(APT) install postgresql; }
	touch $@

# The tests load a small library into the program, which records what it does to files.
.cache/compiler: .cache/venv
	command -v cc >/dev/null || command -v gcc >/dev/null || \
		{ $(SUDO) $(APT) update && $(SUDO) $(APT) install gcc libc6-dev; }
	touch $@

# The tests install the plugin into copies of a real SillyTavern. None of its packages needs its
# install script.
SILLYTAVERN := tests/sillytavern/package.json tests/sillytavern/package-lock.json

.cache/sillytavern/ready: $(SILLYTAVERN) | .cache/venv
	$(LOCKED) sh -ec 'test -e $@ && test -z "$$(find $(SILLYTAVERN) -newer $@)" && exit; \
		rm -rf .cache/sillytavern; mkdir .cache/sillytavern; cp $(SILLYTAVERN) .cache/sillytavern; \
		cd .cache/sillytavern; npm ci --omit=dev --ignore-scripts --no-audit --no-fund; touch ready'

# The types in the comments of the client library are checked.
TYPESCRIPT := tests/sillytavern/types/package.json tests/sillytavern/types/package-lock.json

.cache/typescript/ready: $(TYPESCRIPT) | .cache/venv
	$(LOCKED) sh -ec 'test -e $@ && test -z "$$(find $(TYPESCRIPT) -newer $@)" && exit; \
		rm -rf .cache/typescript; mkdir .cache/typescript; cp $(TYPESCRIPT) .cache/typescript; \
		cd .cache/typescript; npm ci --ignore-scripts --no-audit --no-fund; touch ready'

# And open it in the system's browser: playwright downloads none.
.cache/chromium: .cache/venv
	command -v chromium >/dev/null || { $(SUDO) $(APT) update && $(SUDO) $(APT) install chromium; }
	touch $@

# The inspector: its packages, and the page that is built of them into the Python package. None of
# the packages needs its install script.
INSPECTOR := inspector/package.json inspector/package-lock.json

.cache/inspector/packages: $(INSPECTOR) | .cache/venv
	$(LOCKED) sh -ec 'test -e $@ && test -z "$$(find $(INSPECTOR) -newer $@)" && exit; \
		mkdir -p $(@D); cd inspector; npm ci --ignore-scripts --no-audit --no-fund; touch ../$@'

.cache/inspector/ready: .cache/inspector/packages inspector/build.mjs $(wildcard inspector/src/* inspector/src/*/*)
	$(LOCKED) sh -ec 'node inspector/build.mjs; touch $@'
