"""One file per idea: models and their objectives."""
