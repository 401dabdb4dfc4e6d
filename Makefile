# Every target installs what it needs into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints.txt

.PHONY: help test lint format demo e2e e2e-vllm docs docs-check images cluster-up cluster-down clean

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
	$(BIN)/pytest --cov --cov-report=term
