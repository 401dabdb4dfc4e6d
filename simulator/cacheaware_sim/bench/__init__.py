"""The benchmark: policies against traces, with what can be said about them and what can't."""
