"""FleetView x Policy x Memory x now -> Decision: pure, deterministic, never raises for odd data."""
