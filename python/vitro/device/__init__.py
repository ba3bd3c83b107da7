"""Devices: their files, models in Python, and microbenchmarks beside published values."""
