# On a fresh machine: `make demo` or `make test`. Both make .venv first; only Python 3.11, make and pip are needed.
PYTHON ?= python3
BIN := .venv/bin
# Tests and deployments start hundreds of processes. Where this is set, each of them would compile torch again, which
# takes longer than what most of them do.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test quick exhaustive lint generated docs bench bench-guard clean

setup: .venv/ready

# What runs need. torch comes first and alone: resolved together with the rest, a newer build with gigabytes of CUDA
# would be chosen. Python compiles what it imports when it imports it: compiling all of torch here takes half a minute.
.venv/runtime: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Fedloom needs Python 3.11 or newer, and this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check torch==2.13.0 -c constraints.txt
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt --editable .
	touch $@

# What tests, linters and benchmarks need beside it.
.venv/ready: .venv/runtime
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[parquet,frame,tensorboard,mlflow,wandb,ray,deploy,privacy,secure,ckks,docs,dev]'
	touch $@

demo: .venv/runtime
	rm -rf demo
	$(BIN)/fedloom demo --out demo

# Three workers on two cores: those that play deployments mostly wait.
test: setup
	$(BIN)/python -m pytest -n 3 --dist loadgroup

quick: setup
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m 'not slow'

# More cases of what `make test` shows already, before a release: kills, damages, compiled models, orderings.
exhaustive: setup
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m exhaustive

# What is written from the declarations in the code: the stub of the public names, and pages of the reference.
generated: setup
	PYTHONPATH=tests $(BIN)/python -m support.generated
	$(BIN)/python -m fedloom.config.composition_page docs/composition.md

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation site, in build/site. zensical does not count what griffe says about docstrings as a warning: we do.
docs: setup
	@mkdir -p build
	@$(BIN)/zensical build --clean --strict > build/docs.log 2>&1 || { cat build/docs.log; exit 1; }
	@cat build/docs.log
	@! grep -q '^griffe:' build/docs.log

bench: setup
	$(BIN)/python bench/local.py
	$(BIN)/python bench/engines.py
	$(BIN)/python bench/user_module.py
	$(BIN)/python bench/lstm.py
	$(BIN)/python bench/scale.py
	$(BIN)/python bench/methods.py
	$(BIN)/python bench/state.py
	$(BIN)/python bench/graphs.py
	$(BIN)/python bench/trust.py
	$(BIN)/python bench/models.py
	$(BIN)/python bench/deploy.py

# The benchmarks with a bar, in small: fails where a ratio is below 0.6 of its bar.
bench-guard: setup
	$(BIN)/python bench/guard.py

clean:
	rm -rf .venv .cache demo runs build .pytest_cache .mypy_cache .ruff_cache
