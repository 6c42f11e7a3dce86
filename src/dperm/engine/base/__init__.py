"""What all engines share: the contract, opened rows, blocks of rows, compiled loops."""
