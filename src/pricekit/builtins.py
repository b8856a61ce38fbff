"""The plugins that pricekit ships, registered through the same hooks as those of other packages."""

from pricekit.core.hookspecs import Register, hookimpl


@hookimpl
def pricekit_register_features(register: Register) -> None:
    """Register the four nested feature sets, those that read labelled lines, and those that learn from prices."""
    for size, name in ((15, "Fast15"), (20, "Balanced20"), (22, "Optimized22"), (25, "Ultra25")):
        register(name.lower(), f"pricekit.features.catalog:{name}", f"{size} features of catalogue text")
    others = {
        "columns": ("cells:CellNumbers", "numbers and amounts in any column, such as 3 x 200 g"),
        "trees": (
            "trees:Trees",
            "the log price that boosted trees predict from columns, words and optimized22",
        ),
        "vectors": ("vectors:Vectors", "principal components of columns of vectors, such as embeddings"),
        "neighbours": (
            "neighbours:Neighbours",
            "prices of the most similar training rows, whose words and prices become part of the bundle",
        ),
    }
    for name, (target, summary) in others.items():
        register(name, f"pricekit.features.{target}", summary)


@hookimpl
def pricekit_register_backbones(register: Register) -> None:
    """Register the pretrained backbones and those that need no download."""
    here = "pricekit.nets"
    bag = "weighted bag of token and hashed-bigram embeddings; no download, trains in a minute on a CPU"
    register("bag", f"{here}.bag:Bag", bag)
    register("lstm", f"{here}.lstm:Lstm", "bidirectional LSTM from scratch; no download")
    register(
        "transformer", f"{here}.transformer:SmallTransformer", "small transformer from scratch; no download"
    )
    register("mlp", f"{here}.mlp:Mlp", "no text: a network over the features alone; no download")
    pretrained = {
        "deberta-v3-base": "184M parameters, 12 layers",
        "deberta-v3-small": "141M parameters, 6 layers",
        "roberta-base": "125M parameters, 12 layers",
        "distilroberta": "82M parameters, 6 layers",
        "modernbert-base": "149M parameters, 22 layers, texts of up to 8,192 tokens",
        "multilingual-e5-small": "118M parameters, 12 layers, a hundred languages",
    }
    register(
        "encoder", f"{here}.transformer:AnyEncoder", "any text encoder of transformers, from its weights"
    )
    for name, size in pretrained.items():
        register(name, f"{here}.transformer:{name.replace('-', '_')}", f"pretrained transformer, {size}")


@hookimpl
def pricekit_register_losses(register: Register) -> None:
    """Register the losses on the log price."""
    register("smape", "pricekit.nets.losses:smape", "exact SMAPE of the log price, with bounded gradients")
    register("focal-smape", "pricekit.nets.losses:SmapeLoss", "SMAPE with more weight on hard rows")
    register("log-l1", "pricekit.nets.losses:log_l1", "distance of log prices: the median price")
    register(
        "log-l2",
        "pricekit.nets.losses:log_l2",
        "squared distance of log prices: the geometric mean; for RMSLE",
    )
    register(
        "log-huber", "pricekit.nets.losses:LogHuber", "squared distance of log prices, linear for large ones"
    )
    register("mape", "pricekit.nets.losses:mape", "error relative to the true price")
    register("pinball", "pricekit.nets.losses:Pinball", "a quantile of the price, by default the median")


@hookimpl
def pricekit_register_policies(register: Register) -> None:
    """Register the policies."""
    policies = {
        "quick": "backbone bag on a CPU, with early stopping",
        "auto": "ensemble: as many members of best as fit into a time budget",
        "best": "ensemble: quick, larger trees with similar training rows, and an encoder if installed",
        "ultra": "deberta-v3-base, 384 tokens, 25 features, 12, 20 or 35 epochs",
        "fast": "roberta-base, 256 tokens, 15 features, 15 epochs",
        "blazing": "distilroberta, 256 tokens, 20 features, 10 epochs",
        "optimized": "deberta-v3-small, 256 tokens, 22 features, 25 epochs, focal SMAPE",
        "scratch": "lstm, transformer or mlp, from random weights, in batches of 256 rows",
    }
    for name, summary in policies.items():
        register(name, f"pricekit.training.policies:{name.title()}", summary)


@hookimpl
def pricekit_register_engines(register: Register) -> None:
    """Register ONNX Runtime for each device."""
    engines = {
        "ort-cpu": ("OrtCpu", "the CPU"),
        "ort-cuda": ("OrtCuda", "an NVIDIA GPU"),
        "ort-tensorrt": ("OrtTensorRT", "an NVIDIA GPU, compiled with TensorRT"),
        "ort-tensorrt-rtx": ("OrtTensorRTX", "an NVIDIA GPU, compiled with TensorRT for RTX"),
    }
    for name, (target, device) in engines.items():
        register(name, f"pricekit.predict.ort:{target}", f"ONNX Runtime on {device}")
