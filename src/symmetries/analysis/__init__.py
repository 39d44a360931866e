"""From data, a learner or an audit to a result: what the commands and Python share."""
