"""Many calls at a time, here or elsewhere: the one executor of sweeps, searches, reproductions and characterizations."""
