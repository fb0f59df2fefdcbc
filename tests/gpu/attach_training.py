# SPDX-License-Identifier: Apache-2.0
"""A deterministic training loop: attach_training.py LOSSES [STEPS]

Without STEPS it runs until a file LOSSES.stop appears. Writes the exact loss of every step to LOSSES.
"""
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402

losses_file, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None
torch.manual_seed(4)
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 512), torch.nn.GELU(),
                            torch.nn.Linear(512, 16)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.randn(64, 128, 256, device="cuda")
target = torch.randn(64, 128, 16, device="cuda")
losses = []
print("ready", flush=True)
while len(losses) != steps and not (steps is None and len(losses) % 50 == 0 and os.path.exists(losses_file + ".stop")):
    step = len(losses)
    size = 32 + step % 7 * 16  # requests differ from step to step
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(data[step % 64, :size]), target[step % 64, :size])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 500 == 499:
        torch.cuda.empty_cache()
with open(losses_file, "w") as file:
    file.writelines(f"{loss.hex()}\n" for loss in losses)
