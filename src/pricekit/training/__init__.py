"""The training loop: batches, optimizer steps, epochs, checkpoints, processes."""
