"""The canary: asks a running engine a fixed prompt and compares its log probabilities.

`completion` is the prompt and what comes back, `ask` one run of it, `baseline_json` the runs of a
healthy model, `compare` the statistics, `finding` their words. `watch` asks by schedule, `keeper`
holds what came of it. Pure but for `ask`, `watch` and `keeper`.
"""
