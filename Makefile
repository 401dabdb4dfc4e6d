# Every target installs what it needs: Python packages into .venv, the rest into the user's cache.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints.txt
CLUSTER := $(PYTHON) -m tests.cluster
UNIT := 'not e2e and not vllm and not drain and not trace and not scale and not benchmark'
E2E := 'e2e and not vllm and not drain and not trace'
BENCH := $(BIN)/cacheaware simulate bench
# The parts that import nothing but the standard library: tested whole, each branch of them.
PURE := */cacheaware/decide/*,*/cacheaware_sidecar/kv/*,*/cacheaware_sidecar/engines/*,*/cacheaware_sim/engine.py

PROBE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cacheaware/probe-venv
CONSTRAINTS_PROBE := constraints-probe.txt

.PHONY: help install lint format test unit coverage test-probe bench bench-full bench-tune bench-quick bench-scale demo \
	e2e e2e-vllm e2e-drain e2e-trace docs docs-check images \
	cluster-up cluster-down clean

help: ## what the targets do
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable '.[dev]'
	touch $@

install: $(VENV)/.installed ## the project and its tools into .venv

lint: install ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## let ruff write
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint ## everything, with the end-to-end tests where a cluster can be made
	$(BIN)/pytest -m $(UNIT) --numprocesses=auto --cov --cov-report=
	$(BIN)/pytest -m $(E2E) --cov --cov-append --cov-report=
	$(MAKE) --no-print-directory coverage
	$(BIN)/pytest -m benchmark -s

unit: install ## everything that needs no cluster
	$(BIN)/pytest -m $(UNIT) --numprocesses=auto

$(PROBE)/.installed: Makefile pyproject.toml $(CONSTRAINTS) $(CONSTRAINTS_PROBE)
	test -x $(PROBE)/bin/python || $(PYTHON) -m venv $(PROBE)
	$(PROBE)/bin/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) \
	  --constraint $(CONSTRAINTS_PROBE) --editable '.[probe]' hypothesis pytest pytest-asyncio pytest-timeout pyyaml
	touch $@

test-probe: $(PROBE)/.installed ## the probes on tiny models (installs torch the first time, 5 GB)
	PYTHONPATH=operator:sidecar:simulator $(PROBE)/bin/python -m pytest -m probe tests/probe

coverage: ## of the last test run: 100 % of the pure parts, 90 % of the rest
	$(BIN)/coverage report --include='$(PURE)' --fail-under=100
	$(BIN)/coverage report --omit='$(PURE)' --fail-under=90

e2e: install ## only the end-to-end tests, on a real cluster
	$(BIN)/pytest -m $(E2E)

e2e-vllm: install ## the end-to-end tests on the real vLLM (4 minutes and 6 GB the first time)
	rm -f build/drain-vllm.jsonl
	$(BIN)/pytest -m vllm -s; code=$$?; $(BIN)/python -m tests.e2e.drain.page; exit $$code

e2e-drain: install ## pods go in every way, engines end by every habit: what clients lose (an hour)
	rm -f build/drain.jsonl
	$(BIN)/pytest -m drain -s; code=$$?; $(BIN)/python -m tests.e2e.drain.page; exit $$code

e2e-trace: install ## ten minutes of real traffic on mock engines, beside what the simulator says
	$(BIN)/pytest -m trace -s

bench: install ## the benchmark, 90 minutes on 2 cores; what is stored is not run again
	$(BENCH); code=$$?; $(BENCH) --report docs/benchmark.md && exit $$code

bench-full: install bench-tune ## with a whole day, other models, GPUs, cold starts: hours
	$(BENCH) --part full; code=$$?; $(BENCH) --report docs/benchmark.md && exit $$code

bench-tune: install ## the peers' settings on the train split
	$(BENCH) --tune

bench-quick: install ## five minutes: fails where our policy fell behind its recorded front
	$(BENCH) --part quick

bench-scale: install ## what the operator costs with 1,000 scalers and 5,000 pods (3 minutes)
	$(BIN)/pytest -m scale -s

demo: install ## a cluster, mock engines, load: watch it grow and shrink, with reasons
	$(BIN)/python -m tests.e2e.demo

docs: install ## write the generated pages and manifests anew
	$(BIN)/cacheaware crd > manifests/crd.yaml
	cp manifests/crd.yaml charts/cacheaware/files/crd.yaml
	$(BIN)/cacheaware crd --reference > docs/cacheawarescaler.md
	$(BIN)/python charts/values_table.py

docs-check: install ## links, commands and YAML of the pages; generated ones are up to date
	$(BIN)/pytest -q tests/test_docs.py tests/operator/api/test_crd.py tests/chart/test_crd.py
	$(BIN)/python charts/values_table.py --check

images: ## build the images whose sources changed; load them if a cluster is up
	$(CLUSTER) images

cluster-up: ## a real cluster: kind where a container engine runs, else from source (as root)
	$(CLUSTER) up

cluster-down: ## remove it and all that it put on this machine
	$(CLUSTER) down

clean: ## remove what tests and builds left in this folder (not the caches, not the cluster)
	rm -rf build dist .coverage .coverage.* htmlcov .pytest_cache .mypy_cache .ruff_cache \
	  .hypothesis .import_linter_cache
	find operator sidecar simulator tests -name __pycache__ -type d -prune -exec rm -rf {} +
