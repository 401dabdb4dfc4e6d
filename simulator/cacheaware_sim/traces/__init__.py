"""Traces of requests: readers, generators, reshaping, statistics. All of them stream."""
