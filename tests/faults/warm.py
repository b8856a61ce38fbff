"""What the server of `commands` imports before it forks: everything slow, but nothing that starts a thread."""

import importlib
import os
import pkgutil

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # as pricekit does in processes that train together

import onnx
import onnxruntime
import onnxscript
import torch.onnx._internal.exporter._core
import transformers

import pricekit

SLOW = (onnx, onnxruntime, onnxscript, torch, transformers)

for module in pkgutil.walk_packages(pricekit.__path__, "pricekit."):
    if not module.name.endswith("__main__") and ".testing" not in module.name:
        importlib.import_module(module.name)
