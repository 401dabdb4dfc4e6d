"""The canary: asks a running engine a fixed prompt and compares its log probabilities.

`completion` is the prompt and what comes back, `ask` one run of it. `baseline` holds the runs of a
healthy model, `compare` and `logit_step` are the statistics, `finding` their words. `watch` asks by
schedule, `keeper` keeps what came of it. Pure but for `ask`, `watch` and `keeper`.
"""
