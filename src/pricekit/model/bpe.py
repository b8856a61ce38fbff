"""Byte-pair encoding trained on the table: the tokenizer of backbones without a pretrained one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers


def train_bpe(
    texts: Iterable[str],
    vocab_size: int,
    special_tokens: Sequence[str],
    *,
    unknown: str,
    around: tuple[str, str] | None = None,
    punctuation: bool = True,
) -> Tokenizer:
    """Train a lower-casing BPE tokenizer.

    WordPiece is no alternative: its trainer breaks ties in a different order each time, so runs would not be
    reproducible.

    Args:
        texts: the training texts.
        vocab_size: maximum size of the vocabulary.
        special_tokens: get the first ids, in order.
        unknown: the special token for characters outside the vocabulary.
        around: special tokens that begin and end every text.
        punctuation: whether punctuation becomes tokens; otherwise only letters and digits do.
    """
    tokenizer = Tokenizer(models.BPE(unk_token=unknown, ignore_merges=True))
    # Tokenising limits the speed of prediction; these two are twice as fast as NFKC and BERT's rules.
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace() if punctuation else _words()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=2, special_tokens=list(special_tokens), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    if around:
        ids = [(token, tokenizer.token_to_id(token)) for token in around]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{around[0]} $A {around[1]}", special_tokens=ids
        )
    return tokenizer


def _words() -> pre_tokenizers.PreTokenizer:
    words = pre_tokenizers.Split(Regex(r"\w+"), "removed", invert=True)
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), words])
