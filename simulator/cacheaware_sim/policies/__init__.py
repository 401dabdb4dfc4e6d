"""Autoscaling policies: ours and its peers, each re-derived from what it publishes."""
