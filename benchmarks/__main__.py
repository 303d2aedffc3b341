"""What can be measured: `python -m benchmarks` lists it, `python -m benchmarks NAME ...` runs one."""

from __future__ import annotations

import importlib
import pkgutil
import runpy
import sys

import benchmarks

HELPERS = {"__main__", "harness", "peers", "tables"}


def main() -> None:
    names = sorted(one.name for one in pkgutil.iter_modules(benchmarks.__path__) if one.name not in HELPERS)
    if len(sys.argv) > 1 and sys.argv[1] in names:
        name = sys.argv.pop(1)
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
        return
    for name in names:
        told = (importlib.import_module(f"benchmarks.{name}").__doc__ or "").strip().splitlines()[0]
        print(f"{name:14} {told}")
    if len(sys.argv) > 1 and sys.argv[1] not in ("-h", "--help"):
        raise SystemExit(f"unknown benchmark {sys.argv[1]!r}; expected one of the above")


if __name__ == "__main__":
    main()
