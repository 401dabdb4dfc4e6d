"""Scales LLM workloads on Kubernetes by what their KV caches hold."""
