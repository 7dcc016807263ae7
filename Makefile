# Each verb sets up what it needs: a fresh machine needs nothing but Python 3.11 or newer and make.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test check format bench clean

demo: $(READY)  ## the main job on an embedded default
	$(BIN)/orderless demo

test: $(READY)  ## every test, on the CPU, without data
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal --durations=10  # a worker a core: more threads only wait

check: $(READY)  ## format, lint, types, import rules: seconds
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyrefly check
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(READY)  ## speed on this machine, written to benchmarks/results/
	$(BIN)/python -m benchmarks.scan_cpu

clean:
	rm -rf .venv

# The constraints pin what is installed here; pyproject.toml says what a user needs.
$(READY): pyproject.toml constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)
