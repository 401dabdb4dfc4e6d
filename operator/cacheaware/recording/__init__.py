"""What rounds saw, kept for later: recordings, and today's decision on what they hold."""
