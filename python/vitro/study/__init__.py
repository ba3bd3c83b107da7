"""Many runs of one experiment: `vitro.sweep`."""
