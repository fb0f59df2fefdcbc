"""The part of PyTorch Lightning that a callback uses."""
