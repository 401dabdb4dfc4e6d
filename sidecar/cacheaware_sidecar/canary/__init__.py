"""The canary: asks a running engine a fixed prompt and compares its log probabilities.

`completion` is the prompt and what comes back, `ask` one run of it. `baseline` is the runs of a
healthy model, from the user's file (`baseline_file`) or the pod's own first runs (`learned`), both
as `baseline_json`. `compare` and `logit_step` are the statistics, `finding` their words. `watch`
asks by schedule, `keeper` keeps what came of it.

Pure: `completion`, `baseline`, `baseline_json`, `compare`, `logit_step` and `finding`.
"""
