# SPDX-License-Identifier: Apache-2.0
"""Callbacks for PyTorch training frameworks; each module here needs its framework, which nothing else imports.

    from memreel.integrations.lightning import MemreelCallback       # PyTorch Lightning
    from memreel.integrations.transformers import MemreelCallback    # Hugging Face's Trainer
"""
