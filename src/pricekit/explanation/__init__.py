"""Explanations of prices: the factor that each line, phrase, word and column of a row contributes.

| module | purpose |
|---|---|
| parts.py | a row as a tree of lines, phrases and words; rows without some of them |
| attribution.py | the contributions of the parts to the log price, and what users see of them |
"""
