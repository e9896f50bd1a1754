"""The kinds of clusters, one file each, unaware of each other."""
