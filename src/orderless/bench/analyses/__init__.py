"""Analyses of the paper on simulated data: run, kept and reported like the tables."""
