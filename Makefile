# make demo    the whole story on built-in data
# make test    the tests; with COVER=--cov what they cover, which takes half as long again
# make check   format, lint, types
# make kernels the kernels for CUDA in Triton's interpreter, which needs no GPU; gets Triton (300 MB) where there is none
# make bench   speed beside the peers, on the data in DATA (a folder that holds ml-1m); an hour and more
# Each sets up .venv by itself when it has to.

READY := .venv/.ready

.PHONY: demo test check kernels bench format docs lock clean

demo: $(READY)
	.venv/bin/receraser demo

test: $(READY)
	.venv/bin/python -m pytest -n auto --dist worksteal $(COVER)

check: $(READY)
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

kernels: $(READY)
	.venv/bin/python -c 'import triton' 2>/dev/null || .venv/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps -r requirements/kernels.txt
	TRITON_INTERPRET=1 .venv/bin/python -m pytest -n auto --dist worksteal tests/training/kernels tests/aggregation/test_network.py

bench: $(READY)
	@test -d "$(DATA)" || { echo "make bench: name the folder that holds ml-1m, like: make bench DATA=~/data" >&2; exit 2; }
	.venv/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps -r requirements/bench.txt
	.venv/bin/python -m benchmarks.speed --data "$(DATA)"

format: $(READY)
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

# The page of the command line, from the commands' own help; the tables of the reproduction, from its results.
docs: $(READY)
	.venv/bin/python tools/cli_docs.py
	.venv/bin/python tools/paper_docs.py

# What the lock file pins: everything but torch, which is never resolved together with the rest.
lock: $(READY)
	.venv/bin/python -m pip install --quiet uv
	for name in dev bench kernels; do \
	    .venv/bin/uv pip compile requirements/$$name.in --universal --generate-hashes --python-version 3.11 --no-header --quiet --output-file requirements/$$name.txt && \
	    sed -i "1i # Written by \`make lock\` from $$name.in. Do not edit." requirements/$$name.txt || exit 1; \
	done

clean:
	rm -rf .venv

$(READY): tools/setup.sh requirements/dev.txt pyproject.toml
	PYTHON="$(PYTHON)" tools/setup.sh
	touch $(READY)
