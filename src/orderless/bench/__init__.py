"""The paper's tables as commands: protocols, baselines, a harness that resumes, and a report."""
