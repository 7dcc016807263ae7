"""The members of `Classifier`, and the plan by which they are fitted and weighed."""
