"""kopf handlers and the round: parse, call, record."""
