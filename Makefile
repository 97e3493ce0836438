# `make run` starts an instance, `make test` runs everything CI runs. Both install what they need first.
PYTHON ?= python3
VENV := .venv/bin
ARGS ?=
SEEDS ?= 300
SECONDS ?= 300
JOBS ?= 2
SLOW_JOBS ?= 4
OUT ?= test-results/screenshots
PYTEST ?= $(VENV)/pytest

.PHONY: run demo wheel setup spark dev have-dev test static check docs unit postgresql slow oracle languages console e2e incidents life screenshots sim bugs mutants torture appending machines geo fuzz fuzz-live fuzz-doors newcomer bench lock proto clean console-archive

run: setup
	@exec $(VENV)/python manage.py standalone run $(ARGS)

# A few topics to look at, in the instance that runs.
demo:
	@$(VENV)/python manage.py standalone demo

setup:
	@$(PYTHON) bootstrap.py

# What analyses need, a gigabyte of disk; the console offers it with the first one.
spark: setup
	@$(VENV)/python manage.py standalone spark

dev:
	@$(PYTHON) bootstrap.py --dev

# What `make run` installs has neither the tests' tools nor the official client.
have-dev:
	@test -x $(VENV)/pytest || { echo "magnetar: the development packages are missing. Mend it with: make dev" >&2; exit 1; }

check docs unit postgresql slow oracle languages e2e incidents life screenshots sim bugs mutants torture appending machines geo fuzz fuzz-live fuzz-doors newcomer bench proto: have-dev

# Fast things first: a broken line of code should not wait for a browser.
test: dev static unit postgresql sim slow e2e

# mypy has one process: the console's checks and tests use the other processor meanwhile.
static:
	+$(MAKE) -j 2 --output-sync=target check console docs

check:
	$(VENV)/ruff format --check .
	$(VENV)/ruff check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(VENV)/python manage.py makemigrations --check --dry-run
	$(VENV)/python manage.py export_openapi --check
	$(VENV)/python manage.py settings_reference --check
	$(VENV)/python -m tests.support.documents.reference --check

# The documentation site, which the gateway serves at /docs/. A link that leads nowhere fails the build.
docs:
	rm -rf docs/_build/html
	$(VENV)/python -m sphinx -q -E -a -W --keep-going -d docs/_build/doctrees docs docs/_build/html

unit:
	PYTHONASYNCIODEBUG=1 $(PYTEST) -q -n $(JOBS) tests/unit tests/security tests/golden tests/contract tests/fuzz

# All tests that use the gateway's database, on PostgreSQL instead of SQLite. Without PostgreSQL on this machine it says so.
# The folders are those of tests/support/stores/gateway_database.py; `RECORDS=tests/unit/access` for fewer.
RECORDS ?= tests/unit/gateway tests/unit/admin_ui tests/unit/access tests/security tests/golden/rest

postgresql:
	$(VENV)/python -m tests.support.stores.postgresql $(PYTEST) -q -rs -n $(JOBS) $(RECORDS)

# Real ZooKeeper, real processes, the official client, Spark; the crash tests; where Maven is, Apache's bookies and
# ledger client with ours. The tests of a file stay together, and so do files that share an instance
# (tests/support/instances/shared.py). Less than half of their time is work, the rest are outages and time-outs: two
# processes more than `JOBS`; files of few long tests are first, not last.
slow:
	$(PYTEST) -q -n $(SLOW_JOBS) --dist loadfile --no-loadscope-reorder --timeout 600 -m "not long" \
	  tests/crash tests/machines tests/geo tests/interop/schemas tests/oracle tests/integration tests/interop

# All that stands beside Apache, one by one: its brokers as well. A quarter of an hour.
oracle:
	$(VENV)/pytest -q --timeout 600 tests/oracle

# The built console in dist/magnetar-console.tar.gz: MAGNETAR_CONSOLE=FILE spares another machine Node.
console-archive:
	@$(PYTHON) bootstrap.py --pack-console

# The programs of docs/guides/publish-and-consume.md, also in languages that compile for minutes.
languages:
	$(VENV)/pytest -q -rs -n 0 tests/integration/docs/test_languages.py

# The one wheel of dist/: packages, built console, built documentation. hatchling writes the same bytes each time.
wheel: dev
	rm -rf dist/magnetar-*.whl
	$(MAKE) docs
	$(VENV)/python -m build --wheel --no-isolation --outdir dist .
	$(VENV)/twine check --strict dist/magnetar-*.whl

console:
	$(PYTHON) bootstrap.py --npm run check
	$(PYTHON) bootstrap.py --npm test
	$(PYTHON) bootstrap.py --npm run size

# Three processes for four kinds: the pages of an instance with traffic, those that start Spark and wait for it, those where
# people sign in, and all others (tests/support/instances/shared.py).
e2e:
	$(PYTEST) -q -n 3 --dist loadfile --timeout 600 tests/e2e

# Every part, killed and frozen, under every route of the console, a minute each; prints when each is named. Eight minutes.
incidents:
	INCIDENTS=all $(VENV)/pytest -q -s --timeout 900 tests/e2e/life/test_incidents.py

# The scripted life of an instance to look at: 217 topics, slow, stuck, orphaned and nacking consumers, hostile names.
life:
	$(VENV)/python -m tests.support.life $(ARGS)

# Every page and dialog over it at 375, 1280 and 1920 px in both themes, into OUT.
screenshots:
	$(VENV)/python -m tests.support.life.screenshots --out $(OUT) $(ARGS)

# A short campaign of the seeded simulator; `make sim SEEDS=5000` for a long one.
sim:
	$(VENV)/pytest -q -n $(JOBS) tests/sim
	$(VENV)/python -m tests.sim.run --seeds $(SEEDS)

# Plants known mistakes one by one and prints which of them the simulator catches, and when.
bugs:
	$(VENV)/python -m tests.sim.bugs $(ARGS)

# Puts known mistakes into a copy of the tree one by one and prints which of them the named tests see: docs/mutants.md.
mutants:
	$(VENV)/python -m tests.mutants.run $(ARGS)

# Each named point of a bookie's storage several times, a million messages under kills, stops and wipes, damaged files.
torture:
	CRASH_TIMES=5 $(VENV)/pytest -q --timeout 1800 tests/crash/test_points.py
	$(VENV)/python -m tests.crash.torture $(ARGS)
	$(VENV)/python -m tests.crash.bits

# Lists in topics, changed in transactions while brokers, bookies and coordinators are killed: ARGS="--minutes 30".
appending:
	$(VENV)/python -m tests.crash.appending.run $(ARGS)

# A cluster of five machines, with TLS on every link; as root with cut links. ARGS="--rounds 5 --namespaces".
machines:
	$(VENV)/python -m tests.machines.run $(ARGS)

# Three clusters that replicate to each other, while processes die and links fail. ARGS="--seconds 600 --seed 2".
geo:
	$(VENV)/python -m tests.geo.run $(ARGS)

# Hostile bytes against every parser; coverage-guided where atheris is installed.
fuzz:
	$(VENV)/python -m tests.fuzz.run --seconds $(SECONDS) $(ARGS)

# A million frames of hostile clients to a broker, beside an honest one whose times are told.
fuzz-live:
	$(VENV)/python -m tests.fuzz.live $(ARGS)

# Extreme claims at the three doors of an instance (binary, REST, WebSocket) beside an honest client; `ARGS="--minutes 30"`.
fuzz-doors:
	$(VENV)/python -m tests.fuzz.doors $(ARGS)

# Set-up and first start on fresh Debians with their obstacles, as root, a quarter of an hour. ARGS="--spark" with an analysis.
newcomer:
	$(VENV)/python -m tests.newcomer.run $(ARGS)

# Side by side with Apache Pulsar where Maven is at hand. Prints ratios, asserts nothing.
bench:
	$(VENV)/python -m tests.bench.run $(ARGS)

COMPILE = $$(command -v uv || echo .tools/bin/uv) pip compile --universal --generate-hashes --python-version 3.11 \
  --no-emit-index-url --no-header -q

# requirements.lock is what `make run` installs. requirements-spark.lock adds what analyses need, and holds nothing of the
# other. What the other has only on some systems it holds nevertheless.
lock: dev
	$(COMPILE) requirements-tools.in -o requirements-tools.lock
	$(COMPILE) requirements-node.in -o requirements-node.lock
	$(COMPILE) pyproject.toml --extra daphne --extra analyses -o requirements.lock
	$(COMPILE) -c requirements.lock pyproject.toml --extra spark -o requirements-spark.lock \
	  $$(sed -n '/ ; /d; s/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements.lock)
	$(COMPILE) -c requirements.lock -c requirements-spark.lock pyproject.toml --extra dev -o requirements-dev.lock
	$(COMPILE) -c requirements-dev.lock requirements-docs.in -o requirements-docs.lock

# Generated from our .proto files; committed, so that only a change of protocol needs the compiler.
proto:
	$(VENV)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. \
	  engine/wire/pulsar.proto engine/wire/bookkeeper.proto engine/wire/mledger.proto \
	  engine/functions/definitions/functions.proto

clean:
	rm -rf .venv .tools frontend/node_modules frontend/dist frontend/dist.partial dist docs/_build data
