"""A fleet of engines in virtual time: pods, routing, faults, and what a policy sees of them."""
