"""The same experiments on the real machine and in simulation: `vitro validate`."""
