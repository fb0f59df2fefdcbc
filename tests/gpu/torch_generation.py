# SPDX-License-Identifier: Apache-2.0
"""Text generation with a static cache, whose CUDA graph trees lay out their pool again between runs.

usage: torch_generation.py OUT.pickle.xz [--empty-cache]      for `memreel verify`; needs PyTorch and transformers
"""

import lzma
import pickle
import sys

import torch

torch.cuda.memory._record_memory_history(max_entries=5_000_000, stacks="python")  # before anything is allocated

from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402


def main(out, empties_cache):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=512, intermediate_size=1408, num_hidden_layers=6, num_attention_heads=8,
                                         num_key_value_heads=4, vocab_size=32000, max_position_embeddings=2048))
    model = model.to("cuda", torch.bfloat16).eval()
    model.generation_config.pad_token_id = 0
    model.generation_config.eos_token_id = None
    for batch, prompt, tokens in (1, 64, 64), (4, 128, 96), (2, 200, 64), (1, 64, 64), (8, 96, 64):
        ids = torch.randint(3, 31999, (batch, prompt), device="cuda")
        with torch.no_grad():
            model.generate(ids, max_new_tokens=tokens, cache_implementation="static", do_sample=False)
        del ids
        if empties_cache:
            torch.cuda.empty_cache()
    with lzma.open(out, "wb", preset=1) as file:
        pickle.dump(torch.cuda.memory._snapshot(), file, protocol=4)


if __name__ == "__main__":
    main(sys.argv[1], "--empty-cache" in sys.argv[2:])
