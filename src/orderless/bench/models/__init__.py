"""What stands in the tables: this library, and baselines that keep everyone honest."""
