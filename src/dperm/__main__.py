"""``python -m dperm`` is the ``dperm`` command."""

from dperm.cli import main

if __name__ == "__main__":  # processes of an audit import this module once more
    main()
