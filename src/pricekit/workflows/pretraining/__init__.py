"""Masked-language pretraining: texts, priced or not, to weights that `train --weights` takes.

start.py     tables to texts, tokens and the model
masked.py    which tokens are hidden, and the loss of finding them again
loop.py      the loop, by transformers' Trainer
pretrain.py  all of it, to a published folder
"""
