"""One experiment, run: `vitro.run`, its result, and `vitro run`."""
