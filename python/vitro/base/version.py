"""The version of this package, beside the one in pyproject.toml."""

__version__ = "0.1.0"
