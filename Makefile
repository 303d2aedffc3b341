# make demo    the whole story on built-in data
# make test    the tests
# make check   format, lint, types
# Each sets up .venv by itself when it has to.

READY := .venv/.ready

.PHONY: demo test check format docs lock clean

demo: $(READY)
	.venv/bin/receraser demo

test: $(READY)
	.venv/bin/python -m pytest -n auto --cov

check: $(READY)
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

format: $(READY)
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

# The page of the command line, from the commands' own help.
docs: $(READY)
	.venv/bin/python tools/cli_docs.py

# What the lock file pins: everything but torch, which is never resolved together with the rest.
lock: $(READY)
	.venv/bin/python -m pip install --quiet uv
	.venv/bin/uv pip compile requirements/dev.in --universal --generate-hashes --python-version 3.11 --no-header --quiet --output-file requirements/dev.txt
	sed -i '1i # Written by `make lock` from dev.in. Do not edit.' requirements/dev.txt

clean:
	rm -rf .venv

$(READY): tools/setup.sh requirements/dev.txt pyproject.toml
	PYTHON="$(PYTHON)" tools/setup.sh
	touch $(READY)
