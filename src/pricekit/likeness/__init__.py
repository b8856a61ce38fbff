"""Which texts are equal or nearly equal, whatever their case and punctuation; knows nothing of prices."""
