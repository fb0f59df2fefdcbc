# SPDX-License-Identifier: Apache-2.0
"""The part of PyTorch Lightning that a callback uses."""
