"""Load TensorRT for RTX without a GPU: without a driver, and with one that knows no device.

Runs with the wheel and its extra `tensorrt`; skips without the package, without a C compiler, and outside of Linux.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from ctypes.util import find_library
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
PACKAGE = "onnxruntime_ep_nv_tensorrt_rtx"
DRIVER = {
    "libcuda.so.1": (
        *("cuInit", "cuCtxCreate_v4", "cuCtxDestroy_v2", "cuCtxGetCurrent", "cuCtxPopCurrent_v2"),
        *("cuCtxPushCurrent_v2", "cuCtxSetCurrent", "cuDestroyExternalMemory", "cuDestroyExternalSemaphore"),
        *("cuExternalMemoryGetMappedBuffer", "cuGetErrorString", "cuImportExternalMemory"),
        *("cuImportExternalSemaphore", "cuSignalExternalSemaphoresAsync", "cuStreamGetCtx"),
        "cuWaitExternalSemaphoresAsync",
    ),
    "libnvidia-ml.so.1": ("nvmlErrorString", "nvmlInit_v2", "nvmlShutdown", "nvmlSystemGetDriverVersion"),
}
"""The functions of NVIDIA's driver that the provider's library binds when it is loaded."""

NO_DEVICE = 100


def main() -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    for reason, skips in (
        (f"{PACKAGE} is not installed", importlib.util.find_spec(PACKAGE) is None),
        ("there is no C compiler", compiler is None),
        ("the driver's libraries are imitated on Linux only", sys.platform != "linux"),
        ("this machine has a driver of NVIDIA", any(map(find_library, ("cuda", "nvidia-ml")))),
    ):
        if skips:
            print(f"skipped: {reason}")
            return
    with tempfile.TemporaryDirectory() as folder:
        without_driver = doctor({})
        assert "there is no NVIDIA driver (libcuda.so.1 is missing)" in without_driver, without_driver
        for library, functions in DRIVER.items():
            source = Path(folder, library).with_suffix(".c")
            source.write_text("".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in functions))
            command = [
                compiler,
                "-shared",
                "-fPIC",
                f"-Wl,-soname,{library}",
                "-o",
                Path(folder, library),
                source,
            ]
            subprocess.run(command, check=True)
        driver = {"LD_LIBRARY_PATH": folder}
        with_driver = doctor(driver)
        assert "supports no device of this machine" in with_driver, with_driver
        predicted = pricekit(
            driver, "predict", GOLDEN / "bundle", "-", "--out", "-", "--engine", "ort-tensorrt-rtx"
        )
        assert predicted.returncode == 3, predicted
        assert "supports no device of this machine" in predicted.stderr, predicted.stderr
        assert "Traceback" not in predicted.stderr, predicted.stderr
        assert not predicted.stdout, predicted.stdout
    print("TensorRT for RTX registers, and says why it cannot run here")


def doctor(variables: dict[str, str]) -> str:
    """Return what the doctor says of the engine."""
    shown = pricekit(variables, "plugins", "doctor")
    assert shown.returncode == 0, shown
    (line,) = (line for line in shown.stdout.splitlines() if line.startswith("ort-tensorrt-rtx "))
    return line


def pricekit(variables: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pricekit", *words]
    texts = "sample_id,catalog_content\n1,Item Name: Green Tea\n"
    return subprocess.run(
        command, input=texts, capture_output=True, text=True, env=os.environ | variables, check=False
    )


if __name__ == "__main__":
    main()
