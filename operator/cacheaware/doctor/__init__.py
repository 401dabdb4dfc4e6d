"""Timings that can't lose: what is wrong with a workload, before it hurts.

Rules are pure functions of one `Subject` (a workload, its engine, and what is known of the
cluster); `observe` reads the cluster, `examine` asks all rules.
"""
