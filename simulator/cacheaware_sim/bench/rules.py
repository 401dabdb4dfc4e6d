"""What the page says about the method, and the rules that it keeps."""

METHOD = """\
All policies play every trace in the same simulator: the same requests for the same seed. *Attained*
are requests whose time to the first token and time per further token are both within the targets,
of all that were sent; lost and unfinished ones are misses. *GPU-hours* are of all pods from ordered
to gone, starting and draining included. *±* is the standard deviation over seeds. *Events* are
writes of other replicas, *flaps* those that take back the one before within five minutes. A seed
decides copies and jitter of requests, cold starts, and of generators the whole trace. What the
simulator models and what not, and how it was held against real engines:
[simulator](simulator.md). Prefix caching is on, as vLLM ships."""

HONESTY = """\
Rules:

1. All policies see the same scrapes, equally old; none sees the simulator's inside. Static policies
   and the oracle know the trace, which is why they are there.
2. Peers are derived from their sources at pinned versions and shown as shipped and tuned; their
   tuning saw the train split alone. Ours runs with its defaults, the same on all workloads.
3. Every constant number of pods is a competitor, the best of them chosen with hindsight.
4. Losses are told like wins, by the same sentences, which are computed.
5. The engine model is validated in CI against logs of real engines.
6. Traces are told by their hashes, coefficients by their source; a ranking that turns inside the
   band of coefficients is not a result."""

AGAIN = """\
```sh
make bench-tune    # the peers' settings on the train split
make bench         # the standard part, and this page
make bench-full    # hours: the day, other coefficients, cold starts, models and GPUs
cacheaware simulate bench --only r1-day --seeds 2    # a part of it
```

The traces' folder is `--data`, by default `../shared/data`. What was interrupted goes on where it
stopped; results are kept in `build/bench` as long as the code that decides them stays the same.
Comments may change, and a change of our policy makes only its own runs anew."""
