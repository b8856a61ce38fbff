"""Masked-language pretraining: from texts, with or without prices, to weights for training.

start.py     from tables to texts, tokens and the model
masked.py    masking of tokens, and the loss of predicting them
loop.py      the training loop, by transformers' Trainer
pretrain.py  the whole workflow, up to the published folder
"""
