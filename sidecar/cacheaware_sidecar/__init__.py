"""Runs beside an LLM engine: knows its KV cache, warms it up, drains it."""
