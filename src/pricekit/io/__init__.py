"""The machine: files, locks, remote addresses, processors, interrupts, progress. It knows nothing of prices."""
