#!/bin/sh
# Make .venv in the checkout and install everything into it: torch first and alone, then what dev.txt pins, then us.
# Called by the Makefile; needs Python 3.11 or newer. Quick when there is nothing to do.
set -eu
cd "$(dirname "$0")/.."

python=""
for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
    if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "setup: Python 3.11 or newer is needed, and none was found (name one with: make PYTHON=/path/to/python3)" >&2
    exit 1
fi

if ! [ -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    echo "setup: making .venv with $("$python" --version)" >&2
    rm -rf .venv
    # Debian and Ubuntu ship Python without the part that puts pip into a new environment.
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        become=""
        [ "$(id -u)" = 0 ] || become="sudo -n"
        if ! command -v apt-get >/dev/null || ! { $become apt-get update -q && $become apt-get install -qy "python$version-venv"; } >&2; then
            echo "setup: this Python cannot make environments; run: sudo apt-get install python$version-venv" >&2
            exit 1
        fi
    fi
    "$python" -m venv .venv
fi

pip() { .venv/bin/python -m pip --disable-pip-version-check --quiet "$@"; }

if ! .venv/bin/python -c 'import torch; assert torch.__version__.split("+")[0] == "2.13.0"' 2>/dev/null; then
    echo "setup: installing torch (the largest part)" >&2
    pip install torch==2.13.0
fi
echo "setup: installing the pinned dependencies" >&2
pip install --require-hashes --no-deps -r requirements/dev.txt
pip install --no-deps --no-build-isolation -e .
.venv/bin/python -m pip check --disable-pip-version-check >&2
