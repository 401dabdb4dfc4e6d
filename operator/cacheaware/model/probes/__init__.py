"""Looks inside a running model; one file per probe, on torch and transformers (extra `probe`)."""
