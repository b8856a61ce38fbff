"""Model repositories of Triton Inference Server whose models read texts and return prices.

`config.pbtxt` describes a model to Triton, and `model.py.txt` is the code that Triton's Python backend runs.
"""
