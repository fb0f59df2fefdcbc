"""Callbacks for frameworks that train with PyTorch; each module here needs its framework, which nothing else imports.

    from memreel.integrations.lightning import MemreelCallback       # PyTorch Lightning
    from memreel.integrations.transformers import MemreelCallback    # Hugging Face's Trainer
"""
