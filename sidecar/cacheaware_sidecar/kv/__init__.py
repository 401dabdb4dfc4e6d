"""From a model's config.json to bytes, pages and blocks per request: pure."""
