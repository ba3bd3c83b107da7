"""Papers' results beside simulated ones: `vitro.reproduce`."""
