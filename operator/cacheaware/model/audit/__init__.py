"""What is wrong with a config.json: `examine` asks the rules, a file for each part of a model."""
