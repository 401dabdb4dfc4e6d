"""Workloads as their manifests describe them: what doctor reads and inject changes."""
