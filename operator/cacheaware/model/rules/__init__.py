"""What can be wrong with a config.json, one file per matter; each rule is a pure function."""
