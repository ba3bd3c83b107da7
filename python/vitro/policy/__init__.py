"""Policies written in Python: what stays in DRAM, what is read ahead, which experts are on which unit."""
