# make demo: a small sweep of one dimension, on a model that runs on this machine
# make test: every check and test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)

# Tests import most of the installed packages, so they are compiled at once; the demo imports few of them.
ifdef UV
CREATE := uv venv --allow-existing --quiet --python "$(PYTHON)" $(VENV)
INSTALL := VIRTUAL_ENV=$(VENV) uv pip install --quiet
COMPILED := --compile-bytecode
else
CREATE := $(PYTHON) -m venv $(VENV)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
NOT_COMPILED := --no-compile
endif

# Tests use temporary folders in memory if 2 GB are free, so that no write waits for a disk.
IN_MEMORY := $(shell df -k --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 2000000 {print "/dev/shm"}')
ifneq ($(IN_MEMORY),)
export PYTEST_DEBUG_TEMPROOT := $(IN_MEMORY)
endif

.PHONY: demo test tests lint unit bench clean

$(VENV)/.local: pyproject.toml
	$(CREATE)
	$(INSTALL) $(NOT_COMPILED) -e '.[local,figures]'
	touch $@

$(VENV)/.dev: pyproject.toml
	$(CREATE)
	$(INSTALL) $(COMPILED) -e '.[dev]'
	touch $@ $(VENV)/.local

demo: $(VENV)/.local
	$(BIN)/hab demo || [ $$? -eq 5 ]  # 5: some rows have no readable verdict

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir $(VENV)/site

unit: $(VENV)/.dev
	$(BIN)/pytest -m "not integration"

# Tests that need Ray run one after the other in two of these processes, which mostly wait for it.
TESTS_AT_ONCE ?= 4

# Write compiled modules whatever the environment says: hundreds of processes import them.
demo tests test: export PYTHONDONTWRITEBYTECODE :=
tests: $(VENV)/.dev
	$(BIN)/pytest -n $(TESTS_AT_ONCE) --dist loadgroup --no-loadscope-reorder --durations 25

test: $(VENV)/.dev
	$(MAKE) -j2 --output-sync=target tests lint

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/flow.py
	$(BIN)/python benchmarks/flow.py --tests 1000 --executor local
	$(BIN)/python benchmarks/batch_sweep.py
	$(BIN)/python benchmarks/batch_sweep.py --nightmare
	$(BIN)/python benchmarks/batch_sweep.py --times 10
	$(BIN)/python -m benchmarks.big_store
	$(BIN)/python -m benchmarks.big_store --keys 2000000
	$(BIN)/python -m benchmarks.s3_requests batch
	$(BIN)/python -m benchmarks.s3_requests online
	$(BIN)/python -m benchmarks.s3_requests outage
	$(BIN)/python -m benchmarks.wheel
	$(BIN)/python -m benchmarks.cluster_kills
	$(BIN)/python -m benchmarks.coverage
	$(BIN)/python -m benchmarks.people
	$(BIN)/python -m benchmarks.null_sweeps
	$(BIN)/python -m benchmarks.analyses
	$(BIN)/python -m benchmarks.annotation_form
	$(BIN)/python benchmarks/verdicts.py
	$(BIN)/python benchmarks/inspect_round_trip.py
	$(BIN)/python benchmarks/kill_campaign.py --kills driver=60,lane=20,limiter=20,budget=20
	$(BIN)/python benchmarks/cpu_pairs.py cce5b15 .
	HAB_STOPPED_S=120 $(BIN)/pytest tests/cli/test_batches.py -k stopped_holder
	HAB_KILLS=all $(BIN)/pytest tests/sweep/test_crash_matrix.py
	HAB_KILLS=all $(BIN)/pytest tests/cli/test_run.py -k "killed and local"
	HAB_KILLS=all $(BIN)/pytest -m bench

clean:
	rm -rf $(VENV) runs store .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
