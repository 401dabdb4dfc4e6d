"""From a Decision to the cluster."""
