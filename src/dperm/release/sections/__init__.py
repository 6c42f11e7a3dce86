"""The parts of the page to sign, each a function from a release to HTML."""
