"""Feature `neighbours`: the prices of the training rows with the most similar texts."""
