"""Compares our models with Python's XGBoost and PyTorch: the same answers, and how long they take.

    cargo build --release -p walras-brain --example compare
    python3 crates/brain/compare/compare.py target/release/examples/compare

Needs `xgboost` (PyPI: xgboost-cpu) and numpy; PyTorch is compared where it is installed. Everything
runs on one thread. Fails if answers differ.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import subprocess
import sys
import tempfile
import time

import numpy as np

POD = np.array([0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0], dtype=np.float32)
BATCHES = (100, 5000)
ROUNDS = 300


def inputs(count, missing, seed):
    rng = np.random.default_rng(seed)
    rows = rng.random((count, 26)).astype(np.float32)
    if missing:
        rows[rng.random(rows.shape) < 0.05] = np.nan
    rows[:, 15:] = POD
    return rows


def least(work):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def ours(program, model, rows, folder):
    source, target = os.path.join(folder, "in"), os.path.join(folder, "out")
    rows.tofile(source)
    told = subprocess.run([program, model, source, target, "document"], check=True, capture_output=True)
    return np.fromfile(target, dtype=np.float32), float(told.stdout)


def report(what, count, theirs, mine, apart, allowed):
    print(f"{what:<22} {count:>5} nodes: {theirs:>9.1f} us, ours {mine:>8.1f} us, "
          f"{theirs / mine:>5.1f} times; answers differ by at most {apart:.2g} points")
    assert apart <= allowed, f"{what}: {apart} points apart"


def compare_xgboost(program, folder):
    import xgboost

    rows = inputs(20_000, True, 1)
    known = np.nan_to_num(rows, nan=0.5)
    label = 0.4 * (1 - known[:, 0]) + 0.4 * (1 - known[:, 2]) + 0.2 * (1 - known[:, 4])
    settings = {"max_depth": 6, "eta": 0.1, "seed": 42, "nthread": 1, "tree_method": "hist"}
    start = time.process_time()
    booster = xgboost.train(settings, xgboost.DMatrix(rows, label=label), 100)
    print(f"XGBoost {xgboost.__version__} trains 100 trees on 20000 rows in "
          f"{time.process_time() - start:.2f} s of CPU")
    for ending in ("json", "ubj"):
        model = os.path.join(folder, "model." + ending)
        booster.save_model(model)
        for count in BATCHES:
            asked = inputs(count, True, 2)
            expected = np.clip(booster.inplace_predict(asked), 0, 1) * 100
            theirs = least(lambda: booster.inplace_predict(asked))
            found, mine = ours(program, model, asked, folder)
            report("XGBoost, " + ending, count, theirs, mine, np.abs(found - expected).max(), 1e-3)


def compare_torch(program, folder):
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed, and not compared")
        return
    torch.set_num_threads(1)
    torch.manual_seed(1)

    class Perceptron(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = torch.nn.Sequential(
                torch.nn.Linear(26, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32), torch.nn.ReLU())
            self.score_head = torch.nn.Linear(32, 1)
            self.confidence_head = torch.nn.Linear(32, 1)

        def forward(self, rows):
            hidden = self.hidden(rows)
            score = torch.sigmoid(self.score_head(hidden)) * 100
            return score, torch.sigmoid(self.confidence_head(hidden))

    perceptron = Perceptron().eval()
    model = os.path.join(folder, "model.pt")
    torch.save(perceptron.state_dict(), model)
    print(f"PyTorch {torch.__version__}")
    with torch.inference_mode():
        for count in BATCHES:
            asked = inputs(count, False, 3)
            rows = torch.from_numpy(asked)
            expected = perceptron(rows)[0].numpy()[:, 0]
            theirs = least(lambda: perceptron(rows))
            found, mine = ours(program, model, asked, folder)
            report("PyTorch, .pt", count, theirs, mine, np.abs(found - expected).max(), 1e-2)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: compare.py PROGRAM, which `cargo build --example compare` makes")
    with tempfile.TemporaryDirectory() as folder:
        compare_xgboost(sys.argv[1], folder)
        compare_torch(sys.argv[1], folder)


main()
