"""Commands that go through several packages: `vitro bench`, `vitro demo`, `vitro list`."""
