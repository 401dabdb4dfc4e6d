"""From the cluster to a FleetView."""
