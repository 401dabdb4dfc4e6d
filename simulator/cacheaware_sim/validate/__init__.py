"""The engine model held against logs and published measurements of real engines."""
