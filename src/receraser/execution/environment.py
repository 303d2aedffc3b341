"""The environment that bits depend on: what is pinned in workers before anything is imported, and what is recorded.

Results must not depend on the number of cores or on whether a CPU has wider vector units than the one a store was made
on. So workers run BLAS and torch with one thread, and on x86-64 with AVX2 code paths, whatever the CPU could do beyond.
CPU and CUDA are different environments; so are different versions of the libraries that compute.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

__all__ = ["pinned_variables", "recorded", "worker_variables"]

_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
_AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx2,+prfchw",  # the second asks for memory that will be written
}
_FIXED_CUDA = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
_FIXED_COMPILED = {"TORCHINDUCTOR_DETERMINISTIC": "1"}  # read by torch's compiler: somebody's own model may use it
_SPEED_ONLY = {
    "GOMP_SPINCOUNT": "20000",  # wait some microseconds in a busy loop: for ever would starve others
    # Memory for arrays of some megabytes is kept for the next ones: to ask for pages takes as long as a small merge.
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**27),
}
# What the libraries that compute would otherwise take from the caller's environment.
_NOT_INHERITED = (
    *("ATEN_", "PYTORCH_", "TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "NVIDIA_TF32_", "TRITON_", "CUBLAS_"),
    *("DNNL_", "ONEDNN_", "MKL_", "OPENBLAS_", "GOMP_", "KMP_", "OMP_"),
    *("NPY_", "NUMBA_", "PYTHON"),
)
_INHERITED = ("NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "TORCHINDUCTOR_CACHE_DIR")


def pinned_variables(kernel_threads: int) -> dict[str, str]:
    """Return the variables that are set in every worker; only the thread count of our kernels may differ."""
    pins = (
        _ONE_THREAD | _FIXED_CUDA | _FIXED_COMPILED | {"NUMBA_NUM_THREADS": str(kernel_threads), "PYTHONHASHSEED": "0"}
    )
    return pins | _AVX2 if _has_avx2() else pins


def worker_variables(kernel_threads: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a worker: the caller's, less what could change results, and the pins."""
    kept = {k: v for k, v in inherited.items() if k in _INHERITED or not k.startswith(_NOT_INHERITED)}
    return kept | _SPEED_ONLY | pinned_variables(kernel_threads)


def _has_avx2() -> bool:
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        return " avx2 " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return True  # not Linux: every x86-64 CPU that torch supports there has it


def recorded(device: str) -> Mapping[str, str]:
    """Return what a store notes about where its weights were computed. Called inside the worker.

    The pins are read from the environment as it is, not as it should be. `probe` is the SHA-256 of a few small
    computations: two places that differ in it do not give the same bits, whatever else they have in common.
    """
    import torch

    packages = ["llvmlite", "numba", "numpy", "receraser", "scipy", "torch"] + ["triton"] * (device == "cuda")
    versions = {f"version.{name}": _version(name) for name in packages}
    names = [name for name in pinned_variables(1) if name != "NUMBA_NUM_THREADS"]
    pins = {f"pin.{name}": os.environ.get(name, "not set") for name in sorted(names)}
    cuda = {"version.cuda": str(torch.version.cuda)} if device == "cuda" else {}
    place = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} {_vendor()}".strip()
    about = {"device": device, "processor": place, "python": platform.python_version(), "probe": _probe(device)}
    return about | versions | cuda | pins


def _probe(device: str) -> str:
    """Return the SHA-256 of small computations of the kinds that models are made of."""
    import torch
    from scipy.linalg.blas import sgemm  # the library that numba takes its products from

    from receraser.fingerprint import of_tensors
    from receraser.seeds import id_counters, normal

    numbers = normal(1, id_counters(str(i) for i in range(257)), 67)
    x = torch.from_numpy(numbers).to(device)
    results = {
        "product": x.T @ x,
        "product of doubles": x.double().T @ x.double(),
        "softplus": torch.nn.functional.softplus(x),
        "exp": torch.exp(x),
        "root": (x.square() + 1.0).sqrt(),
        "sum": x.sum(dim=0),
    }
    products = {"product by numpy": numbers.T @ numbers, "product by scipy": sgemm(1.0, numbers.T, numbers)}
    return of_tensors({name: result.cpu().numpy() for name, result in results.items()} | products)


def _vendor() -> str:
    """Return the CPU's maker, where Linux tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
