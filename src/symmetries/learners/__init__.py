"""Learners: models and their objectives, all with the protocol of ``learners.base``."""
