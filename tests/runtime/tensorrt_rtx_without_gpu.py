"""Load TensorRT for RTX without a GPU: without a driver, with one that knows no device, and with an imitated GPU.

Runs with the wheel and its extra `tensorrt`; skips without the package, without a C compiler, and outside of Linux. The
imitated GPU also needs a mount namespace, because ONNX Runtime looks for GPUs in /sys. It compiles nothing.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from ctypes.util import find_library
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
PACKAGE = "onnxruntime_ep_nv_tensorrt_rtx"
PREFIXES = {"libcuda.so.1": "cu[A-Z]", "libnvidia-ml.so.1": "nvml", "libcudart.so": "cuda"}
"""The libraries that are imitated, and how the names of their functions begin."""

GPU = """
#include <stdlib.h>
int cudaGetDeviceCount(int *count) { *count = 1; return 0; }
int cudaDeviceGetByPCIBusId(int *device, const char *bus) { *device = 0; return 0; }
const char *cudaGetErrorString(int error) { return "imitated"; }
const char *cudaGetErrorName(int error) { return "imitated"; }
int cudaGetDeviceProperties(char *properties, int device) {  /* CUDA 13 */
  *(int *)(properties + 360) = atoi(getenv("CAPABILITY")) / 10;
  *(int *)(properties + 364) = atoi(getenv("CAPABILITY")) % 10;
  return 0;
}
"""
"""Functions of `libcudart.so` that do not just succeed."""

IN_SYS = """
mount -t tmpfs none /sys/bus/pci/devices && mkdir /sys/bus/pci/devices/0000:01:00.0 || exit 1
cd /sys/bus/pci/devices/0000:01:00.0 && echo 0x10de > vendor && echo 0x2684 > device && echo 0x030000 > class
cd / && exec "$@"
"""
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")


def main() -> None:
    for reason, skips in (
        (f"{PACKAGE} is not installed", importlib.util.find_spec(PACKAGE) is None),
        ("there is no C compiler", not (shutil.which("cc") and shutil.which("nm"))),
        ("the driver's libraries are imitated on Linux only", sys.platform != "linux"),
        ("this machine has a driver of NVIDIA", any(map(find_library, ("cuda", "nvidia-ml")))),
    ):
        if skips:
            print(f"skipped: {reason}")
            return
    with tempfile.TemporaryDirectory() as folder:
        line = doctor({})
        assert "there is no NVIDIA driver (libcuda.so.1 is missing)" in line, line
        check_driver(Path(folder, "driver"))
        print("TensorRT for RTX registers, and says why it cannot run here")
        command = [*NAMESPACE, IN_SYS, "sh", "true"]
        if shutil.which("unshare") is None or subprocess.run(command, check=False).returncode:
            print("skipped: a GPU cannot be imitated, because there is no mount namespace")
            return
        check_gpu(Path(folder, "gpu"))
    print("a GPU that it supports is chosen, and another one is not")


def check_driver(folder: Path) -> None:
    """Use the engine with a driver whose functions say that there is no device."""
    imitate(folder, "libcuda.so.1", 100)
    imitate(folder, "libnvidia-ml.so.1", 9)
    driver = {"LD_LIBRARY_PATH": str(folder)}
    line = doctor(driver)
    assert "supports no device of this machine" in line, line
    refused(driver, "supports no device of this machine")


def check_gpu(folder: Path) -> None:
    """Use the engine with a GPU that can do nothing."""
    for library in PREFIXES:
        imitate(folder, library, 0, GPU if library == "libcudart.so" else "")
    gpu = {
        "LD_LIBRARY_PATH": str(folder),
        "LD_PRELOAD": str(folder / "libcudart.so"),
        "PRICEKIT_CACHE": str(folder),
    }
    line = doctor(gpu | {"CAPABILITY": "90"})
    assert "supports no device of this machine (" in line, line
    assert "Compute Capability 9.0" in line, line
    line = doctor(gpu | {"CAPABILITY": "86"})
    assert line.split()[1:3] == ["NVIDIA", "10de:2684,"], line
    assert "target_architecture=sm86" in line, line
    refused(gpu | {"CAPABILITY": "86"}, "could not open the graph with its NvTensorRTRTXExecutionProvider")
    (cache,) = folder.glob("bundles/*/tensorrt-rtx-*")
    assert cache.name.endswith("-10de-2684"), cache


def imitate(folder: Path, library: str, result: int, functions: str = "") -> None:
    """Compile a library with all functions that the provider needs from it; others than the given ones return a number.

    Args:
        folder: of the library.
        library: its name.
        result: the number.
        functions: in C.
    """
    folder.mkdir(exist_ok=True)
    (provider,) = Path(importlib.util.find_spec(PACKAGE).submodule_search_locations[0]).glob(
        "*providers_nv*.so"
    )
    command = ["nm", "--dynamic", "--undefined-only", provider]
    symbols = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = set(re.findall(rf" U ({PREFIXES[library]}\w*)", symbols)) - set(re.findall(r"(\w+)\(", functions))
    source = folder / f"{library}.c"
    source.write_text(
        functions + "".join(f"int {name}(void) {{ return {result}; }}\n" for name in sorted(names))
    )
    command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", folder / library, source]
    subprocess.run(command, check=True)


def doctor(variables: dict[str, str]) -> str:
    """Return what the doctor says of the engine."""
    shown = pricekit(variables, "plugins", "doctor")
    assert shown.returncode == 0, shown
    (line,) = (line for line in shown.stdout.splitlines() if line.startswith("ort-tensorrt-rtx "))
    return line


def refused(variables: dict[str, str], reason: str) -> None:
    """Price a text with the engine, which must fail for a reason."""
    predicted = pricekit(
        variables, "predict", GOLDEN / "bundle", "-", "--out", "-", "--engine", "ort-tensorrt-rtx"
    )
    assert predicted.returncode == 3, predicted
    assert reason in predicted.stderr, predicted.stderr
    assert "Traceback" not in predicted.stderr, predicted.stderr
    assert not predicted.stdout, predicted.stdout


def pricekit(variables: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command, with a GPU if the variables have its capability."""
    command = [sys.executable, "-m", "pricekit", *map(str, words)]
    if "CAPABILITY" in variables:
        settings = [f"{name}={value}" for name, value in variables.items()]
        command, variables = [*NAMESPACE, IN_SYS, "sh", "env", *settings, *command], {}
    texts = "sample_id,catalog_content\n1,Item Name: Green Tea\n"
    return subprocess.run(
        command, input=texts, capture_output=True, text=True, env=os.environ | variables, check=False
    )


if __name__ == "__main__":
    main()
