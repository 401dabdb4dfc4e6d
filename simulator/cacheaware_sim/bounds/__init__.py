"""What could at best be reached on a trace: a lower bound, and a clairvoyant policy."""
