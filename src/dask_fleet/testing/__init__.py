"""For those who write a kind of cluster: a contract to check it with, and stand-ins.

``contract.py`` runs the whole contract against a cluster; ``fake_manager.py`` is a
cluster with a real scheduler whose workers live in this process and come, or do not
come, as told; ``simulated.py`` is a resource manager under virtual time, for the core
alone.
"""
