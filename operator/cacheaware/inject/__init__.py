"""Puts the sidecar, its probes, hooks and timings into manifests, and takes them out again.

What to change is decided on plain data (`injection`, `removal`); `yaml_edits` then changes only
those places of the text, so that comments, quotes, order and layout of all else stay as they are.
"""
