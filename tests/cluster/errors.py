"""What a person can do something about: one clear line each."""


class ClusterError(Exception):
    """The cluster, an image or a binary can't be made; the message says what is missing."""
