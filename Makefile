# One word per wish. Only Python 3.11 or later, pip and make are needed; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALL := pip install --quiet --disable-pip-version-check --no-compile# Python compiles what is used, when it is used first
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')# of tests; many wait for processes that they start
DATA ?= demo/train.parquet
SCHEMA ?=
unexport PYTHONDONTWRITEBYTECODE# else every process compiles PyTorch anew, which takes longer than most of them

.PHONY: help setup demo test check format bench flink audit clean

help:
	@echo "make setup    create .venv and install kvec with all it needs"
	@echo "make demo     made traffic, a small model, and decisions that appear while items flow by"
	@echo "make test     all tests"
	@echo "make check    ruff, mypy and the rule of imports"
	@echo "make format   let ruff tidy up"
	@echo "make bench    speed and memory of reading and training, on an idle machine (DATA=table, SCHEMA=toml)"
	@echo "make flink    create .venv-flink for .venv-flink/bin/kvec flink and its tests (they need Java 17 too)"
	@echo "make audit    known weaknesses of installed packages; asks pypi.org, or OSV=http://mirror/v1/query"
	@echo "make clean    remove what was made"

setup: $(READY)

$(READY): pyproject.toml constraints.txt $(wildcard src/kvec/*/*.c src/kvec/*/*.h)
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"kvec needs Python 3.11 or later, not {v[0]}.{v[1]}; say which with: make PYTHON=python3.12")'
	@echo "installing into $(VENV); the first time this takes some minutes"
	$(PYTHON) -m venv --upgrade-deps $(VENV)
	$(BIN)/python -m $(INSTALL) -c constraints.txt -e ".[dev]"
	@touch $(READY)

demo: $(READY)
	@$(BIN)/kvec demo --out demo

test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations 15

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -p no:cacheprovider tests/test_architecture.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	@test -e "$(DATA)" || { echo "there is no $(DATA); make demo makes it, or: make bench DATA=flows.parquet"; exit 2; }
	$(BIN)/python benchmarks/read/bench.py
	$(BIN)/python benchmarks/train/bench.py "$(DATA)" $(if $(SCHEMA),--schema "$(SCHEMA)")

flink: .venv-flink/.ready

.venv-flink/.packages: constraints-flink.txt
	$(PYTHON) -m venv --upgrade-deps .venv-flink
	.venv-flink/bin/python -m $(INSTALL) -r constraints-flink.txt
	@touch .venv-flink/.packages

.venv-flink/.ready: .venv-flink/.packages pyproject.toml $(wildcard src/kvec/*/*.c src/kvec/*/*.h)
	.venv-flink/bin/python -m $(INSTALL) --no-deps -e .
	@touch .venv-flink/.ready

audit: $(READY)
	$(BIN)/python -m $(INSTALL) pip-audit
	@$(BIN)/python -m pip --disable-pip-version-check freeze --all --exclude-editable | sed 's/+[a-z0-9.]*$$//' > $(VENV)/installed.txt
	@$(BIN)/pip-audit --strict --no-deps --disable-pip -r $(VENV)/installed.txt --progress-spinner off $(if $(OSV),-s osv --osv-url "$(OSV)") || { echo "it found something, or could not ask about each: it needs pypi.org, or OSV=http://mirror/v1/query"; exit 1; }

clean:
	rm -rf $(VENV) .venv-flink demo dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
