"""A model of an LLM engine, and a mock engine that behaves like vLLM."""
