"""The offline planner: `vitro plan`."""
