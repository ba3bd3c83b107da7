"""This machine as a device file: `vitro calibrate`."""
