"""The CacheAwareScaler as pydantic models, and the CRD made from them."""
