"""How good predicted prices are: rows held out of training, their scores, and what two models differ in."""
