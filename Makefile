# Two commands do everything on a machine with Python >= 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test test-slow test-engines audit coverage check lint types docs graph words bench tables figures names locked lock clean

demo: $(VENV)/.installed
	$(BIN)/dperm compare adult --loss logistic --delta 1e-8 --repeats 2 --out demo --metric accuracy --metric log_loss \
		$(foreach name,auto objective ssp dp-gd dp-sgd output rsgd-ar rsgd-ar:paper none majority,--mechanism $(name))

# One thread of linear algebra in each of two processes: more of them wait for each other on two cores.
test test-slow coverage: export OMP_NUM_THREADS = 1
test test-slow coverage: export OPENBLAS_NUM_THREADS = 1

test: $(VENV)/.installed
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

# Engines that need more than the test extra: Dask, and Spark with a Java on the machine.
test-engines: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[dask,spark]'
	$(BIN)/python -m pytest -m 'not slow' tests/engine

test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m slow

# Every claim, that for persons too, and whether the audit notices mistakes that are put into the library.
audit: $(VENV)/.installed
	$(BIN)/dperm audit --all
	$(BIN)/dperm audit --persons
	$(BIN)/dperm audit --self-test

# The floor stands in pyproject.toml.
coverage: $(VENV)/.installed
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal --cov --cov-report=term:skip-covered

check: lint types graph words docs

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

# Layers, cycles, private names, lengths, copies. DRAW='--svg imports.svg' draws it.
graph: $(VENV)/.installed
	$(BIN)/python tools/import_graph.py $(DRAW)

# Words of our own where the field has one.
words: $(VENV)/.installed
	$(BIN)/python tools/field_words.py

# A page to start from: docs/_build/html/index.html. Results come from docs/data. Warnings are errors.
docs: $(VENV)/.docs
	$(BIN)/dperm reproduce --write-docs docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks

# The tables of the documentation: mechanisms from the registry, results from docs/data.
tables: $(VENV)/.installed
	$(BIN)/python tools/mechanism_table.py --write
	$(BIN)/python tools/extras_table.py --write
	$(BIN)/python tools/matrix_table.py --write
	$(BIN)/python tools/import_graph.py --svg docs/_static/imports.svg
	$(BIN)/dperm reproduce --write-docs docs
	$(BIN)/python tools/cli_examples.py --write

# The figures of the front page and of the gallery: minutes, for the audit in it.
figures: $(VENV)/.installed
	$(BIN)/python tools/front_figure.py
	$(BIN)/python tools/gallery.py

# The stubs that tell type checkers which names dperm exports.
names: $(VENV)/.installed
	$(BIN)/python tools/names.py

$(VENV)/.installed: pyproject.toml audit/pyproject.toml papers/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --editable audit --editable papers
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

# The exact versions of requirements/dev.txt in place of the newest ones.
locked:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable . --editable audit --editable papers
	touch $(VENV)/.installed $(VENV)/.docs

# Needs uv.
lock:
	uv pip compile pyproject.toml --extra dev --extra docs --universal --python-version 3.11 --generate-hashes \
		--no-header --quiet --upgrade --output-file requirements/dev.txt

clean:
	rm -rf $(VENV) demo build dist docs/_build
