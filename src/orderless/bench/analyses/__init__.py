"""Analyses of the paper, on simulated data or on its sets: run, kept, reported like the tables."""
