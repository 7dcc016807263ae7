"""The four tables of the paper, one file each: their cells, and how to run one."""
