"""The same drafters as Triton kernels inside captured CUDA graphs; shares only the contract with reference_impl."""
