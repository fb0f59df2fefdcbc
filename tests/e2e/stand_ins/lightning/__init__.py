"""As much of PyTorch Lightning as a callback notices."""
