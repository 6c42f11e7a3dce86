"""Other tools for private learning on our rows and splits, each in an environment of its own."""
