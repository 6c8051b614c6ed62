"""llama.cpp's logits for given ids, run by an interpreter that has llama-cpp-python.

    python llama_logits.py model.gguf ids.npy logits.npy

ids: int32 [sequences, length]; logits: float32 [sequences, length, vocabulary].
"""

import sys

import numpy as np
from llama_cpp import Llama

model_path, ids_path, out_path = sys.argv[1:]
sequences = np.load(ids_path)
count, length = sequences.shape
model = Llama(model_path, n_ctx=length, n_batch=length, logits_all=True, verbose=False)
out = np.lib.format.open_memmap(
    out_path, mode="w+", dtype=np.float32, shape=(count, length, model.n_vocab())
)
for index, ids in enumerate(sequences):
    model.reset()
    model.eval(ids.tolist())
    out[index] = model.scores[:length]
out.flush()
