"""Model files: made, measured, quantised, packed, with predictors."""
