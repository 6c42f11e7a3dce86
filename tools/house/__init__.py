"""What the import graph of the package is and what it must not hold; `tools/import_graph.py` is the command."""
