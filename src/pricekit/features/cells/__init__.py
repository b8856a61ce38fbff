"""The cells of a text: its labelled lines, and the numbers, quantities and categories that they hold.

`cut` finds the cells, `written` reads numbers as people write them, `units` knows the units, `quantities` reads amounts
such as "3 x 200 g", and `profile` describes what each label yields.
"""
