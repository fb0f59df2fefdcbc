# SPDX-License-Identifier: Apache-2.0
"""Synthetic programs of any size, as PyTorch would record them: input and expected output of `memreel predict`."""

import pickle

ROW_BYTES = 4


class Recorder:
    """Requests and frees with stacks, steps, and addresses that are never used twice."""

    def __init__(self, file):
        self.file = file
        self.entries, self.annotations, self.sizes, self.next_address = [], [], {}, 0x7F0000000000

    def now(self):
        return 1_700_000_000_000_000 + len(self.entries)

    def frames(self, line):
        return [{"name": "work", "filename": self.file, "line": line}, {"name": "<module>", "filename": self.file, "line": 1}]

    def add(self, action, address, size, line):
        frames = self.frames(line) if isinstance(line, int) else line
        self.entries.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": self.now(), "frames": frames})

    def alloc(self, size, line):
        address, self.next_address = self.next_address, self.next_address + size // 512 * 512 + 1024
        self.sizes[address] = size
        self.add("alloc", address, size, line)
        return address

    def free(self, *addresses):
        for address in addresses:
            size = self.sizes.pop(address)
            self.add("free_requested", address, size, 0)
            self.add("free_completed", address, size, 0)

    def step(self, stage):
        self.annotations.append({"name": "step", "stage": stage, "device": 0, "time_us": self.now()})

    def snapshot(self):
        settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                    "expandable_segments": False, "roundup_power2_divisions": {}}
        return {"segments": [], "device_traces": [self.entries], "allocator_settings": settings,
                "external_annotations": self.annotations}

    def pickle(self):
        return pickle.dumps(self.snapshot(), protocol=4)


def forward(made, layers, batch, seq, width):
    batch_input = made.alloc(batch * seq * 8, 20)
    hidden = made.alloc(batch * seq * width * ROW_BYTES, 21)
    saved = []
    for _ in range(layers):
        attention = made.alloc(batch * 8 * seq * seq * 2, 30)
        workspace = made.alloc(3 << 20, 31)
        output = made.alloc(batch * seq * width * ROW_BYTES, 32)
        made.free(workspace)
        saved.append((attention, output))
    return saved, batch_input, hidden


def backward(made, saved, batch_input, hidden, batch, seq, width):
    logits = made.alloc(batch * seq * 1000 * ROW_BYTES, 40)
    gradient = made.alloc(batch * seq * width * ROW_BYTES, 41)
    gradients = []
    for attention, output in reversed(saved):
        scratch = made.alloc(batch * 8 * seq * seq * 2, 50)
        weight_gradient = made.alloc(4 * width * width * ROW_BYTES, 51)
        bias_gradient = made.alloc(width * ROW_BYTES, 52)
        made.free(scratch, attention)
        following = made.alloc(batch * seq * width * ROW_BYTES, 53)
        made.free(gradient, output)
        gradient = following
        gradients += [weight_gradient, bias_gradient]
    made.free(gradient, logits, hidden, batch_input)
    return gradients


def training(layers=3, batch=2, seq=64, width=256, micro=1, steps=3):
    """A transformer: activations of a layer grow with the batch and the sequence, its attention with the sequence's
    square, its weights with the width's square. The backward pass goes through the layers the other way; of several
    micro batches, the first keeps its gradients, and those of others are added to them. The optimizer's state is made
    by one line of code, whatever its size."""
    made = Recorder("train.py")
    outer = [made.alloc(width * ROW_BYTES, 13), made.alloc(1000 * width * ROW_BYTES, 10)]
    weights = [[made.alloc(4 * width * width * ROW_BYTES, 11), made.alloc(width * ROW_BYTES, 12)] for _ in range(layers)]
    states, loss = [], []
    for step in range(steps):
        made.step("START")
        gradients = []
        for _ in range(micro):
            held = forward(made, layers, batch, seq, width)
            last, loss = loss, [made.alloc(4, 42)]
            made.free(*last)
            fresh = backward(made, *held, batch, seq, width)
            if gradients:
                made.free(*fresh)
            else:
                gradients = fresh
        if step == 0:
            for weight in [*outer, *(weight for layer in weights for weight in layer)]:
                states.append(made.alloc(made.sizes[weight], 60))
        made.free(*gradients)
        made.step("END")
    return made


def embedding(batch, steps=3):
    """An embedding. Its gradient is computed by a sort from 3,073 words on: 4,096 in 8 samples, 8,192 in 16. Its requests
    then are those of PyTorch 2.11 on an H200."""
    width, table, indices = 768, 16000 * 768 * ROW_BYTES, batch * 512
    sizes = {4096: (83455, 1279, 36040, 13839360), 8192: (150015, 1279, 72088, 27681792)}.get(indices)
    made = Recorder("words.py")
    words = [{"name": "embedding", "filename": "torch/nn/functional.py", "line": 2567}, *made.frames(30)]
    made.alloc(table, 10)
    for _ in range(steps):
        made.step("START")
        ids = made.alloc(8 * indices, 20)
        embedded = made.alloc(indices * width * ROW_BYTES, words)
        gradient = made.alloc(indices * width * ROW_BYTES, [])
        made.free(embedded)
        scratch = []
        if sizes:
            sort, unique, starts, sums = sizes
            scratch += [made.alloc(8 * indices, []) for _ in range(2)]
            numbers, sorting = made.alloc(8 * indices, []), made.alloc(sort, [])
            made.free(sorting, numbers)
        result = made.alloc(table, [])
        if sizes:
            scratch += [made.alloc(8 * indices, []), made.alloc(8, [])]
            keys, finding = made.alloc(8 * indices, []), made.alloc(unique, [])
            made.free(finding, keys)
            scratch += [made.alloc(8 * indices, []) for _ in range(2)]
            made.free(made.alloc(unique, []))
            scratch += [made.alloc(8, []), made.alloc(starts, []), made.alloc(sums, [])]
            made.free(*reversed(scratch))
        made.free(gradient)
        made.free(result, ids)
        made.step("END")
    return made


def vision(side):
    """The same over an image's patches plus one token: its attention grows with the fourth power of the side."""
    return training(seq=(side // 16) ** 2 + 1)


def generation(tokens=16, batch=2, layers=2, width=512, steps=2):
    """A decoder that copies its growing cache at every token."""
    made = Recorder("generate.py")
    for _ in range(layers):
        made.alloc(12 * width * width * 2, 10)
    for _ in range(steps):
        made.step("START")
        prompt = made.alloc(batch * 32 * 8, 20)
        cache = [made.alloc(batch * 32 * width * 2, 21) for _ in range(layers)]
        for token in range(tokens):
            hidden = made.alloc(batch * width * 2, 30)
            for layer in range(layers):
                longer = made.alloc(batch * (33 + token) * width * 2, 31)
                scores = made.alloc(batch * 8 * (33 + token) * 4, 32)
                made.free(cache[layer], scores)
                cache[layer] = longer
            logits = made.alloc(batch * 32000 * 4, 33)
            made.free(hidden, logits)
        made.free(*cache, prompt)
        made.step("END")
    return made


def ragged(batch, steps=3):
    """The number of repeated requests depends on its data."""
    made = Recorder("ragged.py")
    for _ in range(steps):
        made.step("START")
        for _ in range(8):
            made.free(made.alloc(batch * (4 << 20), 10))
        for _ in range({1: 2, 2: 1}.get(batch, 3)):
            made.free(made.alloc(3 << 20, 20))
        made.step("END")
    return made


def convolutions(batch, steps=3):
    """A library that chooses another algorithm, with another workspace, for larger batches."""
    made = Recorder("convolve.py")
    weights = [made.alloc(9 * 256 * 256 * 4, 10) for _ in range(4)]
    for _ in range(steps):
        made.step("START")
        saved = []
        for layer in range(4):
            saved.append(made.alloc(batch * 256 * 784 * 4, 20))
            workspace = batch * (2 << 20) + 147 if batch < 4 + layer else 17_000_003 + batch * (1 << 19)
            made.free(made.alloc(workspace, 21))
        for output in reversed(saved):
            gradient = made.alloc(batch * 256 * 784 * 4, 30)
            made.free(output, gradient)
        made.step("END")
    assert weights[0] in made.sizes
    return made


def pinned(batch, steps=3):
    """Small results pin segments of earlier large ones: PyTorch can reuse them only if they are expandable."""
    made = Recorder("pin.py")
    for _ in range(steps):
        made.step("START")
        results = []
        for _ in range(4):
            made.free(made.alloc(batch * (12 << 20), 10))
            results.append(made.alloc(3 << 19, 11))
        made.step("END")
        made.free(*results)
    return made
