"""Output perturbation: train without noise, release the weights once."""
